float act(float x) {
  return x;
}
