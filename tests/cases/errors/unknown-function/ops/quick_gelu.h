inline float half(float x) {
  return 0.5f * x;
}

inline float quick_gelu(float x) {
  return half(x);
}
