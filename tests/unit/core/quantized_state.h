// A body that keeps numbers as 8-bit codes with a scale for each row, as optimizers keep moments:
//   m = 0.5 m + x;  m's codes and scale are what it is in memory.
#pragma once
#include <cmath>
#include <vector>

#include "interpreter.h"
#include "ops/builder.h"
#include "passes/passes.h"

namespace hydrac::test {

struct QuantizedState {
  ir::Graph graph;
  ir::Use x, codes, scales, copy;

  QuantizedState(int64_t rows, int64_t columns, bool is_signed) {
    const auto add = [&](const std::string& name, ir::DType dtype, const ir::Shape& shape) {
      ir::Value value{.name = name, .dtype = dtype, .shape = shape, .role = ir::Role::state};
      return ir::Use{graph.add(std::move(value)), {}};
    };
    const ir::Dim row{rows, "R"}, column{columns, "W"};
    x = add("x", ir::DType::f32, {row, column});
    codes = add("codes", ir::DType::u8, {row, column});
    scales = add("scales", ir::DType::f32, {row});
    copy = add("copy", ir::DType::u8, {row, column});
    graph.functions.push_back({"f", {{"only", 0, false, false, {}}}});
    ops::RegionBuilder region(graph, graph.functions[0].regions[0]);
    const ir::Node node{.inputs = {x, codes, scales}, .outputs = {codes, scales, copy}};
    ir::BodyBuilder k(graph, node, {row});
    k.columns({column});
    const ir::Term before = dynamic_value(k.full(1), is_signed) * k.per_row(2);
    const ir::Term after = k.named("after", before * 0.5 + k.full(0));
    const ir::Term largest = k.named("largest", k.maximum(abs(after)));
    k.store(0, dynamic_code(after * (1 / largest), is_signed));
    k.store_row(1, largest);
    k.store(2, k.full(1));
    region.emit_body(node, "quantized", k.take());
    passes::Log log;
    passes::expand(graph, {}, log);
  }

  const ir::Node& node() const { return graph.functions[0].regions[0].nodes[0]; }

  // Numbers of many magnitudes, positive ones where codes have no sign.
  void fill(Interpreter& state, bool is_signed) const {
    const auto write = [&](ir::Use use, double (*number)(int64_t, bool)) {
      std::vector<double> numbers(static_cast<size_t>(element_count(graph.value(use).shape)));
      for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = number(static_cast<int64_t>(i), is_signed);
      state.write(use, numbers);
    };
    write(x, [](int64_t i, bool is_signed) {
      const double size = std::pow(10.0, -static_cast<double>(i * 7 % 83) / 12);
      return static_cast<double>(static_cast<float>(is_signed && i % 3 == 0 ? -size : size));
    });
    write(codes, [](int64_t i, bool) { return static_cast<double>(i * 101 % 256); });
    write(scales, [](int64_t i, bool) { return 0.25 * static_cast<double>(i + 1); });
  }
};

}  // namespace hydrac::test
