float act(float x) {
  return x * x;
}
float gelu(float x) {
  return x * lost;
}
