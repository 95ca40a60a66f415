// A user's function of real numbers as a job states it: nodes in the order in which they are computed. Its
// derivative is autograd's business.
#pragma once
#include <string>
#include <vector>

#include "oracle/job/json_reader.h"

namespace hydrac::oracle {

struct ExpressionNode {
  std::string op;
  double number = 0;      // constant: its value; pow: the exponent; argument: which one
  std::vector<int> args;  // earlier nodes
};

struct Expression {
  int parameters = 0;
  std::vector<ExpressionNode> nodes;
  int result = 0;
};

// Throws JobError for operations nobody knows, and for arguments that are no earlier nodes.
Expression read_expression(JsonReader in);

// The value in double.
double evaluate(const Expression& expression, const std::vector<double>& arguments);

}  // namespace hydrac::oracle
