// In double, as on a blackboard.
double act(double x) {
  return x * x;
}
