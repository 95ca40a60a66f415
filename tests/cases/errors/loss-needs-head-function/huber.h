float huber(float y, float target) {
  return (y - target) * (y - target);
}
