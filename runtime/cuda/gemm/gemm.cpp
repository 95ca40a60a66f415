#include "runtime/cuda/gemm/gemm.h"

#include <fmt/format.h>

#include "runtime/cuda/gemm/gemm_choices.h"
#include "runtime/cuda/gemm/gemm_descriptors.h"
#include "runtime/cuda/gemm/gemm_search.h"
#include "runtime/cuda/library.h"
#include "runtime/cuda/library_version.h"
#include "runtime/cuda/memory.h"
#include "runtime/error.h"
#include "runtime/program/after_call.h"

namespace hydrac::runtime::cuda {

namespace {
constexpr const char* kSection = "cublaslt";  // of recorded choices
}  // namespace

// The number is 10000 major + 100 minor + patch since version 12.
std::string library_version() {
  const std::size_t number = cublaslt().cublasLtGetVersion();
  return fmt::format("cuBLASLt {}.{}.{}", number / 10000, number % 10000 / 100, number % 100);
}

namespace {

void check_argument(const GemmProblem& problem, const char* name, const void* address,
                    std::int64_t alignment = kOperandAlignment) {
  const auto number = reinterpret_cast<std::uintptr_t>(address);
  if (number != 0 && number % static_cast<std::uintptr_t>(alignment) == 0) return;
  throw RunError(
      fmt::format("matmul {}: the address of {} is {}", problem.text(), name,
                  number == 0 ? std::string("missing") : fmt::format("no multiple of {}", alignment)));
}

void check_arguments(const Gemm& gemm, const GemmArguments& arguments, const void* workspace) {
  const GemmProblem& p = gemm.problem();
  check_argument(p, "a", arguments.a);
  check_argument(p, "b", arguments.b);
  check_argument(p, "d", arguments.d);
  if (p.bias) check_argument(p, "bias", arguments.bias);
  if (is_f8(p.a)) {
    check_argument(p, "a_scale", arguments.a_scale);
    check_argument(p, "b_scale", arguments.b_scale);
  }
  if (gemm.workspace_bytes() > 0) check_argument(p, "workspace", workspace, 256);
}

}  // namespace

struct Gemm::State {
  State(const GemmProblem& wanted, int sms) : problem(wanted), descriptors(wanted, sms) {}
  GemmProblem problem;
  mutable GemmDescriptors descriptors;  // run() puts the arguments' addresses into it
  GemmChoice choice;
  std::string description;
};

Gemm::Gemm(std::unique_ptr<State> state) : state_(std::move(state)) {}
Gemm::Gemm(Gemm&&) noexcept = default;
Gemm& Gemm::operator=(Gemm&&) noexcept = default;
Gemm::~Gemm() = default;

const GemmProblem& Gemm::problem() const {
  return state_->problem;
}
std::int64_t Gemm::workspace_bytes() const {
  return state_->choice.workspace_bytes;
}
double Gemm::ms() const {
  return state_->choice.ms;
}
const std::string& Gemm::description() const {
  return state_->description;
}

struct GemmLibrary::State {
  State(const Context& context, const GemmOptions& options)
      : version(library_version()), sms(context.device().sms), choices(options.cache_file) {
    const DeviceInfo& device = context.device();
    search.workspace_bytes = options.workspace_bytes >= 0 ? options.workspace_bytes
                             : device.capability >= 90    ? std::int64_t{64} << 20
                                                          : std::int64_t{32} << 20;
    search.l2_bytes = device.l2_bytes;
    used.set(kSection, "library", version);
    used.set(kSection, "gpu", device.name);
    // Another version numbers its algorithms differently.
    const auto same = [&](const char* key) {
      return options.recorded.find(kSection, key) == used.find(kSection, key);
    };
    if (same("library") && same("gpu")) recorded = options.recorded;
    search.candidates = options.candidates;
    search.budget_ms = options.search_ms;
    machine = fmt::format("{}; driver {}; {}; workspace {}", device.name, device.driver_version, version,
                          search.workspace_bytes);
    check_blas(cublaslt().cublasLtCreate(&search.handle), "cublasLtCreate");
  }
  ~State() { cublaslt().cublasLtDestroy(search.handle); }

  std::string key(const GemmProblem& problem) const { return machine + "; " + problem.text(); }

  // The recorded or else the remembered choice, if this library still takes it.
  std::optional<GemmChoice> remembered(const GemmProblem& problem, GemmDescriptors& descriptors) const {
    const auto text = recorded.find(kSection, problem.text());
    for (auto choice : {text ? parse_recorded(*text) : std::nullopt, choices.find(key(problem))}) {
      if (choice && takes(descriptors, *choice)) return choice;
    }
    return std::nullopt;
  }

  // Sets the workspace that it needs here.
  bool takes(GemmDescriptors& descriptors, GemmChoice& choice) const {
    return descriptors.accepts(search.handle, choice.algorithm, &choice.workspace_bytes) &&
           choice.workspace_bytes <= search.workspace_bytes;
  }

  std::string version;
  int sms;
  std::string machine;
  RecordedChoices recorded;  // empty unless of this library and GPU
  RecordedChoices used;
  GemmChoices choices;
  GemmSearch search;
};

GemmLibrary::GemmLibrary(const Context& context, const GemmOptions& options)
    : state_(std::make_unique<State>(context, options)) {}
GemmLibrary::~GemmLibrary() = default;

const std::string& GemmLibrary::version() const {
  return state_->version;
}
std::int64_t GemmLibrary::max_workspace_bytes() const {
  return state_->search.workspace_bytes;
}

RecordedChoices GemmLibrary::choices() const {
  return state_->used;
}

bool GemmLibrary::remembers(const GemmProblem& problem) const {
  GemmDescriptors descriptors(problem, state_->sms);
  return state_->remembered(problem, descriptors).has_value();
}

std::int64_t GemmLibrary::scratch_bytes(const GemmProblem& problem) const {
  return (state_->search.workspace_bytes + 255) / 256 * 256 + operand_bytes(problem);
}

std::vector<GemmChoice> GemmLibrary::measured(const GemmProblem& problem, GemmDescriptors& descriptors,
                                              const Stream& stream, DeviceRange scratch) const {
  const std::int64_t least = scratch_bytes(problem);
  DeviceBuffer own;
  if (scratch.data == nullptr) {
    const std::int64_t sets = useful_operand_sets(problem, state_->search.l2_bytes);
    own = DeviceBuffer(least + (sets - 1) * operand_bytes(problem));
    scratch = {own.data(), own.bytes()};
  }
  if (scratch.bytes < least) {
    throw RunError(fmt::format("choosing an algorithm for {} needs {} bytes of scratch memory and got {}",
                               problem.text(), least, scratch.bytes));
  }
  std::vector<GemmChoice> all = search_gemm(state_->search, problem, descriptors, stream, scratch);
  if (all.empty()) {
    throw RunError(
        fmt::format("{} has no algorithm for the matmul {} on this GPU", state_->version, problem.text()));
  }
  return all;
}

Gemm GemmLibrary::planned(std::unique_ptr<Gemm::State> gemm, const GemmChoice& choice) {
  state_->used.set(kSection, gemm->problem.text(), recorded_text(choice));
  gemm->choice = choice;
  gemm->description = describe(choice);
  return Gemm(std::move(gemm));
}

Gemm GemmLibrary::plan(const GemmProblem& problem, const Stream& stream, DeviceRange scratch) {
  auto gemm = std::make_unique<Gemm::State>(problem, state_->sms);
  auto choice = state_->remembered(problem, gemm->descriptors);
  if (!choice) {
    choice = measured(problem, gemm->descriptors, stream, scratch).front();
    state_->choices.remember(state_->key(problem), *choice);
  }
  return planned(std::move(gemm), *choice);
}

std::vector<std::string> GemmLibrary::alternatives(const GemmProblem& problem, const Stream& stream,
                                                   DeviceRange scratch, int most) {
  constexpr double kAsGood = 1.1;  // times the fastest one's time
  GemmDescriptors descriptors(problem, state_->sms);
  const std::vector<GemmChoice> all = measured(problem, descriptors, stream, scratch);
  std::vector<std::string> words;
  for (const GemmChoice& choice : all) {
    if (static_cast<int>(words.size()) == most || choice.ms > kAsGood * all.front().ms) break;
    const std::string text = recorded_text(choice);
    if (text != state_->used.find(kSection, problem.text())) words.push_back(text);
  }
  return words;
}

Gemm GemmLibrary::plan_as(const GemmProblem& problem, const std::string& words) {
  auto gemm = std::make_unique<Gemm::State>(problem, state_->sms);
  auto choice = parse_recorded(words);
  if (!choice || !state_->takes(gemm->descriptors, *choice))
    throw RunError(fmt::format("{} does not take this algorithm for the matmul {} on this GPU: {}",
                               state_->version, problem.text(), words));
  return planned(std::move(gemm), *choice);
}

void GemmLibrary::run(const Gemm& gemm, const GemmArguments& arguments, const Stream& stream,
                      void* workspace) const {
  check_arguments(gemm, arguments, workspace);
  before_call(stream.handle());
  const auto status = gemm.state_->descriptors.run(state_->search.handle, gemm.state_->choice.algorithm,
                                                   arguments, stream, workspace, gemm.workspace_bytes());
  if (status != abi::kBlasSuccess) {
    throw RunError(fmt::format("cuBLASLt refuses the matmul {}: {}", gemm.problem().text(),
                               cublaslt().cublasLtGetStatusName(status)));
  }
  after_call(stream.handle());
}

}  // namespace hydrac::runtime::cuda
