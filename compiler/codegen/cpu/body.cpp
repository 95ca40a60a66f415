#include "codegen/cpu/body.h"

#include <algorithm>
#include <stdexcept>

#include "codegen/cpu/body_printer.h"
#include "codegen/kernel_table.h"

namespace hydrac::codegen {

using ir::ExprId;
using ir::kRowSpace;
using ir::Store;
using ir::StoreKind;

CpuKernel CpuBodyPrinter::print() {
  CpuKernel kernel;
  const bool columns_outside = sums_over_few_rows();
  has_row_pointers_ = !columns_outside;
  kernel.comment = comment();
  kernel.sharing = sharing();
  kernel.workspace_bytes = columns_outside || sums_.empty() ? 0 : blocks() * sum_width_ * 4;
  take_parameters(kernel);
  declare_constants();
  print_uniform();
  if (columns_outside) {
    print_columns_outside();
  } else if (!sums_.empty()) {
    print_row_blocks();
  } else {
    print_rows();
  }
  out_.drop_unused();
  kernel.text.body = std::move(out_);
  return kernel;
}

void CpuBodyPrinter::declare_constants() {
  out_.declare_where_used("constexpr int", "kBlocks", std::to_string(blocks()),
                          "of rows, whatever the number of threads");
  out_.declare_where_used("constexpr std::int64_t", "kSums", sums_size().code, "of a block");
  out_.add(named_constants());
}

// A condition on a bool, of one byte, keeps g++ from vectorizing a loop over codes of one byte and floats.
std::string CpuBodyPrinter::variable_type(ExprId id) const {
  const bool has_codes = std::ranges::any_of(
      body_.operands, [](const ir::Operand& operand) { return operand.dtype == ir::DType::u8; });
  const bool is_wide = deps_[id].uniform && body_.exprs[id].type == ir::ExprType::boolean && has_codes;
  return is_wide ? "std::int32_t" : BodyPrinter::variable_type(id);
}

Code CpuBodyPrinter::stored_code(const Store& store) const {
  const Code value = text_.of(store.value);
  const bool is_code = body_.operands[store.operand].dtype == ir::DType::u8;
  return is_code ? code("static_cast<{}>({})", c_type(store.operand), value) : value;
}

void CpuBodyPrinter::take_parameters(CpuKernel& kernel) {
  for (size_t o = 0; o < body_.operands.size(); ++o) {
    const auto operand = static_cast<int>(o);
    if (operand_names_[o].empty() || !is_used(operand)) continue;
    kernel.take(pointer_type(operand), operand_names_[o], body_.operands[o].shape, use_of(operand));
  }
  if (kernel.workspace_bytes > 0)
    kernel.text.take("float*", "workspace", {{blocks(), ""}, {sum_width_, sum_width_ == 1 ? "1" : "kSums"}});
  kernel.takes_layer = takes_layer();
  if (kernel.takes_layer) kernel.text.take("int", "layer");
  if (has_row_loop()) {
    kernel.rows = rows_size();
    kernel.text.take("std::int64_t", "rows");
  }
}

bool CpuBodyPrinter::is_small() const {
  int64_t columns = 1;
  for (size_t s = 0; s < body_.spaces.size(); ++s)
    columns = std::max(columns, element_count(body_.space_shape(static_cast<int>(s))));
  return body_.row_count() * columns < 8192;
}

int64_t CpuBodyPrinter::blocks() const {
  return std::min<int64_t>(kRowBlocks, body_.row_count());
}

bool CpuBodyPrinter::sums_over_few_rows() const {
  return sums_.size() == body_.stores.size() && !sums_.empty() && stages_.size() == 1 &&
         std::ranges::all_of(sums_, [&](int s) {
           return body_.stores[s].space != kRowSpace && body_.spaces[body_.stores[s].space].size() == 2;
         });
}

// The column sums have a loop over rows only if a block has several. g++ would unroll a loop of a single
// iteration before it vectorizes, and then sum the inner loops one by one.
bool CpuBodyPrinter::has_row_loop() const {
  const bool has_blocks = !sums_.empty() && !sums_over_few_rows();
  return body_.row_count() > 1 && !(has_blocks && body_.row_count() == blocks());
}

void CpuBodyPrinter::print_rows() {
  if (!has_row_loop()) {
    out_.declare_where_used("constexpr std::int64_t", "r", "0", "the only row");
    return print_row();
  }
  if (!is_small()) out_.line("#pragma omp parallel for schedule(static)");
  out_.open_loop("std::int64_t", named("r"), named("rows"));
  print_row();
  out_.close();
}

void CpuBodyPrinter::print_row_blocks() {
  if (!is_small()) out_.line("#pragma omp parallel for schedule(static)");
  out_.open_loop("std::int64_t", "block", named("kBlocks"));
  if (sum_width_ == 1) {
    out_.line("float* sums = workspace + block;");
    out_.line("sums[0] = 0.0f;");
  } else {
    out_.line("float* sums = workspace + block * {};", named("kSums"));
    out_.line("std::fill_n(sums, {}, 0.0f);", named("kSums"));
  }
  if (!has_row_loop()) {
    out_.open("");
    out_.declare_where_used("const std::int64_t", "r", "block");
  } else {
    const auto first_of = [&](const char* block) {
      return code("{} * {} / {}", block, named("rows"), named("kBlocks"));
    };
    out_.open_loop("std::int64_t", named("r"), first_of("block"), first_of("(block + 1)"), "++r");
  }
  print_row();
  out_.close();
  out_.close();
  out_.blank();
  out_.comment("The blocks' sums, in order.");
  for (int s : sums_) print_final_sum(body_.stores[s]);
}

void CpuBodyPrinter::print_total(const Code& at) {
  const Code block = sum_width_ == 1 ? "block" : code("block * {}", named("kSums"));
  out_.line("float total = 0.0f;");
  out_.line("for (std::int64_t block = 0; block < {}; ++block) total += workspace[{}];", named("kBlocks"),
            sum_of(block, at));
}

void CpuBodyPrinter::store_total(const Store& store) {
  out_.line("{} {} total;", element(store.operand, store.index),
            store.kind == StoreKind::add_column_sum ? "+=" : "=");
}

void CpuBodyPrinter::print_final_sum(const Store& store) {
  const int64_t elements = sum_elements(store);
  const Code at = sum_offset_code(store);
  if (elements == 1) {
    out_.open("");
    print_total(at);
    const VariableNames saved = variables_;
    if (store.space != kRowSpace) {
      for (int v : body_.spaces[store.space]) variables_[v] = "0";
    }
    store_total(store);
    variables_ = saved;
    out_.close();
    return;
  }
  const std::vector<int>& space = body_.spaces[store.space];
  if (space.size() != 1) throw std::logic_error("a column sum over several column dimensions needs few rows");
  out_.line("#pragma omp {}simd{}", elements * blocks() > 65536 ? "parallel for " : "",
            elements * blocks() > 65536 ? " schedule(static)" : "");
  // The column sums' index is the bare columns, so the flat column number finds the element.
  const Code& column = variables_[space[0]];
  out_.open_loop("std::int64_t", column, width_of(store.space).code);
  print_total(sum_of(at, column));
  store_total(store);
  out_.close();
}

void CpuBodyPrinter::print_columns_outside() {
  for (int s : sums_) {
    const Store& store = body_.stores[s];
    for (int v : body_.spaces[store.space]) {
      const bool is_outer = v == body_.spaces[store.space][0];
      out_.line("#pragma omp {}", is_outer ? "parallel for schedule(static)" : "simd");
      out_.open_loop("std::int64_t", variables_[v], dimensions_.of(body_.variables[v]).code);
    }
    out_.line("float total = 0.0f;");
    out_.open_loop("std::int64_t", named("r"), has_row_loop() ? named("rows") : rows_size().code);
    out_.line("total += {};", text_.of(store.value));
    out_.close();
    store_total(store);
    out_.close();
    out_.close();
  }
}

void CpuBodyPrinter::print_row() {
  out_.add(with_row_pointers(written([&] {
    plan_reuse();
    print_stages();
  })));
}

void CpuBodyPrinter::print_row_store(const Store& store) {
  if (store.kind == StoreKind::store) {
    out_.line("{} = {};", element(store.operand, store.index), stored_code(store));
  } else {
    out_.line("sums[{}] += {};", sum_offset_size(store), text_.of(store.value));
  }
}

CpuKernel cpu_kernel(const ir::Graph& graph, const ir::Node& fused) {
  CpuKernel kernel = CpuBodyPrinter(graph, fused).print();
  kernel.name = kernel_name(std::get<std::string>(fused.attributes.at("name")));
  return kernel;
}

}  // namespace hydrac::codegen
