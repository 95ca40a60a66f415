#include "runtime/cuda/term_sums.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <vector>

#include "runtime/cuda/library.h"

namespace hydrac::runtime::cuda {

namespace {

constexpr unsigned kThreads = 256;
constexpr std::int64_t kVectorBytes = 16;

std::string kernel_name(ElementType type, Reduction reduction, bool by_16_bytes) {
  return fmt::format("{}_of_{}{}", reduction == Reduction::sum ? "sum" : "largest", name(type),
                     by_16_bytes ? "_vectors" : "");
}

// The text of one kernel: thread i has the i-th 16 bytes of each term, or the i-th element. In PTX, which
// every driver compiles, because the machine that runs a built program may have neither NVRTC nor nvcc.
class KernelText {
 public:
  KernelText(int terms, ElementType type, Reduction reduction, bool by_16_bytes)
      : terms_(terms), type_(type), reduction_(reduction), by_16_bytes_(by_16_bytes) {}

  std::string text() {
    begin();
    for (int term = 0; term < terms_; ++term) load(term);
    for (int term = 0; term < terms_; ++term) add(term);
    store();
    return text_ + "ret;\n}\n";
  }

 private:
  bool is_f32() const { return type_ == ElementType::f32; }
  int bytes() const { return by_16_bytes_ ? static_cast<int>(kVectorBytes) : element_bytes(type_); }
  // Registers of 32 bits that a thread loads of a term, and elements.
  int words() const { return by_16_bytes_ ? 4 : 1; }
  int elements() const { return bytes() / element_bytes(type_); }

  template <class... Arguments>
  void line(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    text_ += fmt::format(format, std::forward<Arguments>(arguments)...) + "\n";
  }

  void begin() {
    line(".visible .entry {}(", kernel_name(type_, reduction_, by_16_bytes_));
    for (int term = 0; term < terms_; ++term) line(".param .u64 term_{},", term);
    text_ +=
        ".param .u64 result,\n.param .u64 threads\n)\n{\n"
        ".reg .pred outside;\n.reg .u32 block, size, thread;\n"
        ".reg .u64 index, count, offset, address;\n.reg .u64 place;\n";
    line(".reg .b32 word<{}>;\n.reg .b16 half<{}>;\n.reg .f32 sum<{}>, value;\n.reg .b32 bits;",
         terms_ * words(), terms_ * words() + 2, elements());
    text_ +=
        "mov.u32 block, %ctaid.x;\nmov.u32 size, %ntid.x;\nmov.u32 thread, %tid.x;\n"
        "cvt.u64.u32 place, thread;\nmad.wide.u32 index, block, size, place;\n"
        "ld.param.u64 count, [threads];\nsetp.ge.u64 outside, index, count;\n@outside ret;\n";
    line("mul.lo.u64 offset, index, {};", bytes());
  }

  void load(int term) {
    line("ld.param.u64 address, [term_{}];\nadd.u64 address, address, offset;", term);
    const int first = term * words();
    if (by_16_bytes_) {
      line("ld.global.v4.b32 {{word{}, word{}, word{}, word{}}}, [address];", first, first + 1, first + 2,
           first + 3);
    } else if (is_f32()) {
      line("ld.global.b32 word{}, [address];", first);
    } else {  // the upper half is not used
      line("ld.global.b16 half{}, [address];\nmov.b32 word{}, {{half{}, half{}}};", first, first, first,
           first);
    }
  }

  // `value` becomes an element of a term.
  void convert(int term, int element) {
    const int word = term * words() + element / (is_f32() ? 1 : 2);
    const bool upper = element % 2 == 1;
    if (is_f32()) {
      line("mov.b32 value, word{};", word);
    } else if (type_ == ElementType::bf16) {
      if (upper)
        line("and.b32 bits, word{}, 0xffff0000;", word);
      else
        line("shl.b32 bits, word{}, 16;", word);
      line("mov.b32 value, bits;");
    } else {
      const int low = terms_ * words();
      line("mov.b32 {{half{}, half{}}}, word{};\ncvt.f32.f16 value, half{};", low, low + 1, word,
           low + (upper ? 1 : 0));
    }
  }

  void add(int term) {
    const bool is_sum = reduction_ == Reduction::sum;
    for (int element = 0; element < elements(); ++element) {
      convert(term, element);
      if (is_sum && term == 0)
        line("add.rn.f32 sum{}, value, 0f00000000;", element);
      else if (is_sum)
        line("add.rn.f32 sum{0}, sum{0}, value;", element);
      else if (term == 0)
        line("mov.f32 sum{}, value;", element);
      else
        line("max.f32 sum{0}, sum{0}, value;", element);
    }
  }

  void store() {
    line("ld.param.u64 address, [result];\nadd.u64 address, address, offset;");
    const char* type = type_ == ElementType::bf16 ? "bf16" : "f16";
    if (is_f32()) {
      if (by_16_bytes_)
        line("st.global.v4.f32 [address], {{sum0, sum1, sum2, sum3}};");
      else
        line("st.global.f32 [address], sum0;");
    } else if (by_16_bytes_) {
      for (int word = 0; word < 4; ++word)  // the first operand is the upper half
        line("cvt.rn.{0}x2.f32 word{1}, sum{2}, sum{3};", type, word, 2 * word + 1, 2 * word);
      line("st.global.v4.b32 [address], {{word0, word1, word2, word3}};");
    } else {
      line("cvt.rn.{}.f32 half0, sum0;\nst.global.b16 [address], half0;", type);
    }
  }

  int terms_;
  ElementType type_;
  Reduction reduction_;
  bool by_16_bytes_;
  std::string text_;
};

template <class Each>
void for_each_kind(const Each& each) {
  for (const ElementType type : {ElementType::f32, ElementType::bf16, ElementType::f16})
    for (const Reduction reduction : {Reduction::sum, Reduction::max})
      for (const bool by_16_bytes : {true, false}) each(type, reduction, by_16_bytes);
}

bool is_aligned(const std::byte* data) {
  return reinterpret_cast<std::uintptr_t>(data) % kVectorBytes == 0;
}

}  // namespace

std::string term_sum_code(int terms) {
  std::string text = ".version 7.0\n.target sm_80\n.address_size 64\n";
  for_each_kind([&](ElementType type, Reduction reduction, bool by_16_bytes) {
    text += KernelText(terms, type, reduction, by_16_bytes).text();
  });
  return text;
}

TermSums::TermSums(int terms) : terms_(terms) {
  const std::string code = term_sum_code(terms);
  check(driver().cuModuleLoadDataEx(&module_, code.c_str(), 0, nullptr, nullptr),
        "cuModuleLoadDataEx of sums over ranks");
  for_each_kind([&](ElementType type, Reduction reduction, bool by_16_bytes) {
    check(driver().cuModuleGetFunction(&kernels_[{type, reduction, by_16_bytes}], module_,
                                       kernel_name(type, reduction, by_16_bytes).c_str()),
          "cuModuleGetFunction");
  });
}

TermSums::~TermSums() {
  if (module_ != nullptr) driver().cuModuleUnload(module_);
}

void TermSums::enqueue(std::span<const std::byte* const> terms, std::byte* to, std::int64_t count,
                       ElementType type, Reduction reduction, const Stream& stream) const {
  if (static_cast<int>(terms.size()) != terms_) throw std::logic_error("a sum of another number of terms");
  const std::int64_t bytes = element_bytes(type);
  const bool by_16_bytes = is_aligned(to) && std::ranges::all_of(terms, is_aligned);
  const std::int64_t vectors = by_16_bytes ? count * bytes / kVectorBytes : 0;
  const std::int64_t behind = vectors * kVectorBytes;  // single elements follow
  const auto launch = [&](std::int64_t first, std::int64_t threads, bool is_vector) {
    if (threads == 0) return;
    std::vector<const std::byte*> places(terms.begin(), terms.end());
    places.push_back(to);
    for (const std::byte*& place : places) place += first;
    std::vector<void*> parameters;
    for (const std::byte*& place : places) parameters.push_back(&place);
    parameters.push_back(&threads);
    abi::CUlaunchConfig config = {};
    config.grid_x = static_cast<unsigned>((threads + kThreads - 1) / kThreads);
    config.block_x = kThreads;
    config.grid_y = config.grid_z = config.block_y = config.block_z = 1;
    config.stream = stream.handle();
    check(driver().cuLaunchKernelEx(&config, kernels_.at({type, reduction, is_vector}), parameters.data(),
                                    nullptr),
          "cuLaunchKernelEx of a sum over ranks");
  };
  launch(0, vectors, true);
  launch(behind, count - behind / bytes, false);
}

}  // namespace hydrac::runtime::cuda
