// An emitted program's layout.cpp, compiled: it is the layout that the JIT uses, field by field.
#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "driver/compile.h"
#include "emit/emit.h"
#include "targets/cuda/machine.h"
#include "targets/executable/call_table.h"
#include "targets/executable/program_layout.h"
#include "tests/unit/support/source_dir.h"
#include "tests/unit/support/spec_of_text.h"
#include "tests/unit/support/temp_dir.h"

namespace hydrac::emit {
namespace {

using runtime::NamedTensor;
using runtime::ParameterStart;
using runtime::Place;
using runtime::ProgramLayout;

std::string text(const Place& place) {
  return fmt::format("{}+{}", place.offset, place.elements);
}

std::string text(const std::vector<runtime::Nf4Place>& places) {
  std::string all;
  for (const runtime::Nf4Place& nf4 : places)
    all += fmt::format(" codes {} {} {} of {}", nf4.codes, nf4.block_codes, nf4.groups, nf4.elements);
  return all;
}

std::string text(const std::vector<runtime::SharedBytes>& stretches) {
  std::string all;
  for (const runtime::SharedBytes& s : stretches)
    all += fmt::format(" shared {} {} at {} own {} before {}", s.first, s.bytes, s.address, s.own, s.before);
  return all;
}

std::string text(const std::vector<runtime::TensorPiece>& pieces) {
  std::string all;
  for (const runtime::TensorPiece& p : pieces) {
    all += fmt::format(" piece {} lines {} {} bytes {} {} of {} at {}", p.first, p.lines, p.stride, p.bytes,
                       p.own, p.parts, p.address);
    if (p.shared) all += text(std::vector{*p.shared});
  }
  return all;
}

std::string text(const NamedTensor& tensor) {
  return fmt::format("{} [{}] {} at {}{}{}{}{}\n", tensor.name, fmt::join(tensor.shape, ","),
                     static_cast<int>(tensor.dtype), tensor.address, tensor.transposed ? " transposed" : "",
                     tensor.nf4 ? text(std::vector{*tensor.nf4}) : "", text(tensor.shared),
                     text(tensor.pieces));
}

std::string text(const ParameterStart& start) {
  return fmt::format("start {} {} {} {}{}{}\n", text(start.place), static_cast<int>(start.kind), start.number,
                     static_cast<int>(start.dtype), text(start.nf4), text(start.pieces));
}

std::string ports_text(const ProgramLayout& layout) {
  std::string all;
  const auto add = [&](const char* name, const Place& place) {
    all += fmt::format("{} {}\n", name, text(place));
  };
#define HYDRAC_INPUT(name) add("input " #name, layout.inputs.name);
#define HYDRAC_STATE(name) add("state " #name, layout.state.name);
#define HYDRAC_RESULT(name) add("result " #name, layout.results.name);
#include "runtime/program/ports.def"
  for (const runtime::MetricPlace& metric : layout.metrics)
    all += fmt::format("metric {} {} {} {} {} {}\n", metric.text.name, metric.text.label,
                       metric.text.decimals, metric.text.importance, metric.text.group, text(metric.place));
  const runtime::InputPlaces& in = layout.inputs;
  const runtime::StatePlaces& state = layout.state;
  return all + fmt::format("ids {} {} {} {} {}\nstart {} {} {}\nvocabulary {}\n", in.token_ids,
                           in.position_ids, in.own_ids, in.first_own_id, in.own_targets,
                           state.initial_loss_scale, state.initial_rate.digits, state.initial_rate.unit,
                           layout.results.vocab_size);
}

std::string tensors_text(const ProgramLayout& layout) {
  std::string all;
  for (const ParameterStart& start : layout.starts) all += text(start);
  for (const auto* tensors :
       {&layout.parameters, &layout.base_parameters, &layout.optimizer_state, &layout.encoder_parameters}) {
    all += "tensors\n";
    for (const NamedTensor& tensor : *tensors) all += text(tensor);
  }
  all += text(layout.divided) + "\n";
  for (const runtime::GradientPlace& g : layout.gradients)
    all += fmt::format("gradients {} {} {} {}\n", text(g.parameters), text(g.gradients),
                       static_cast<int>(g.parameter_dtype), static_cast<int>(g.dtype));
  return all;
}

std::string sizes_text(const ProgramLayout& l) {
  const runtime::CacheShape& c = l.cache;
  std::string all = fmt::format("bytes {} {} {} {} {}\n", l.arena_bytes, l.persistent_bytes, l.input_bytes,
                                l.host_bytes, l.kept_bytes);
  all += fmt::format("exchange {} {} {}\n", static_cast<int>(l.exchange.by), l.exchange.offset,
                     l.exchange.bytes);
  all +=
      fmt::format("steps {} {} {}\n", l.gradient_accumulation_steps, l.reply_micro_batches, l.context_length);
  all += fmt::format("cache {} {} {} {} {} {} {} {}\n", c.sequences, c.prompts, c.prompt_tokens, c.top,
                     c.steps_in_flight, c.pages, c.page_tokens, c.pages_of_sequence);
  all += fmt::format("texts {} {}\n", l.texts.rows, l.texts.tokens);
  all += fmt::format("copies {} gathers {} seed {}\n", l.working_copies, l.gathers_weights, l.seed);
  if (l.tensor_ranks > 1) all += fmt::format("ranks {} {} {}\n", l.tensor_ranks, l.stream_rows, l.vocabulary);
  if (l.rope) {
    const runtime::RopeScaling& s = l.rope->scaling;
    all += fmt::format("rope {} {} {} {} {} {} {} {} {}\n", text(l.rope->cos), text(l.rope->sin),
                       l.rope->tokens, l.rope->head_dim, l.rope->theta, s.factor, s.low_freq_factor,
                       s.high_freq_factor, s.original_max_position_embeddings);
  }
  return all;
}

std::string calls_text(const ProgramLayout& layout) {
  std::string all;
  for (const char* function : {"micro_step", "update", "evaluate", "generate", "prefill", "decode", "score",
                               "score_base", "embed", "load"}) {
    all += fmt::format("function {}\n", function);
    for (const runtime::TracedCall& call : layout.calls.of(function)) {
      all += call.text();
      for (const auto* tensors : {&call.reads, &call.makes})
        for (const runtime::TensorView& t : *tensors) all += fmt::format(" {} {}", t.name, t.offset);
      all += "\n";
    }
  }
  return all;
}

std::string described(const ProgramLayout& layout) {
  return sizes_text(layout) + ports_text(layout) + tensors_text(layout) + calls_text(layout);
}

// layout.cpp takes the runtime's functions that it calls from this program, which exports them.
ProgramLayout emitted_layout(const driver::Compiled& compiled) {
  const test::TempDir folder;
  for (const auto& [name, text] : emit(compiled, {}, {"test.yaml", {}}))
    if (name.find('/') == std::string::npos) test::spill(folder / name, text);
  test::spill(folder / "entry.cpp",
              "#include \"layout.cpp\"\n"
              "extern \"C\" void entry(hydrac::runtime::ProgramLayout& to) {\n"
              "  to = hydrac::test_program::program_layout();\n}\n");
  const std::string library = (folder / "layout.so").string();
  const std::string command = fmt::format(
      "{0} -std=c++20 -shared -fPIC -I {1} -I {1}/templates -I {1}/templates/include -I {2} -o {3} "
      "{2}/entry.cpp",
      HYDRAC_CXX, test::source_dir(), folder.path().string(), library);
  if (std::system(command.c_str()) != 0) throw std::runtime_error("layout.cpp does not compile");
  void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) throw std::runtime_error(::dlerror());
  ProgramLayout layout;
  reinterpret_cast<void (*)(ProgramLayout&)>(::dlsym(handle, "entry"))(layout);
  ::dlclose(handle);
  return layout;
}

struct LayoutCase {
  const char* name;
  std::vector<std::string> overrides;
};

class Layout : public testing::TestWithParam<LayoutCase> {};

// Between them: every port but an encoder's, loss scaling, split parameters, shared state, codes, copies.
INSTANTIATE_TEST_SUITE_P(
    Programs, Layout,
    testing::Values(
        LayoutCase{"OnCpu",
                   {"target=cpu", "optimizations.threads=2", "model.position=learned", "model.norm=layernorm",
                    "train.optimizer.learning_rate=auto"}},
        LayoutCase{"Replies",
                   {"adapter.type=lora", "adapter.base=nf4", "objective.name=polychromic", "objective.kl=0.1",
                    "objective.prompt_tokens=16", "objective.max_new_tokens=16", "data.path=x.jsonl",
                    "data.format=chat"}},
        LayoutCase{"Fp16", {"target=t4", "optimizations.precision=fp16", "model.mor.recursions=2"}},
        LayoutCase{"SharedLayers",
                   {"parallel.tensor=2", "parallel.data=2", "parallel.zero=1", "model.dropout=0.1"}},
        LayoutCase{"SharedWeights",
                   {"parallel.data=2", "parallel.zero=3", "optimizations.optimizer_state=int8"}}),
    [](const auto& info) { return info.param.name; });

TEST_P(Layout, IsThatOfTheJit) {
  const spec::Spec spec = test::spec_of_text(
      "name: test\n"
      "target: h100\n"
      "model: {hidden_size: 128, num_hidden_layers: 3, num_attention_heads: 4, vocab_size: 256}\n"
      "data: {path: corpus.txt}\n"
      "train: {sequence_len: 128, micro_batch_size: 2, max_steps: 10}\n",
      GetParam().overrides);
  const driver::Compiled compiled = driver::compile(spec, targets::offline_compile_options(spec, ""));
  const ProgramLayout emitted = emitted_layout(compiled);
  ProgramLayout own = targets::layout_of(compiled);
  // Emitted code names keys, the JIT their lines too.
  own.calls = runtime::CallTable(targets::call_table(compiled, targets::SpecPlaces::keys));
  EXPECT_EQ(described(emitted), described(own));
  EXPECT_DOUBLE_EQ(emitted.flop_per_target, own.flop_per_target);
}

}  // namespace
}  // namespace hydrac::emit
