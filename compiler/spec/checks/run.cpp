// The schedule's lengths, and folders that a spec file may write to.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>

#include "diag/render.h"
#include "spec/checks/check.h"

namespace hydrac::spec {
namespace {

using diag::Kind;

void check_loss(Draft& draft) {
  const auto& loss = draft.spec.train.loss;
  const Head head = draft.spec.model.head;
  if (!draft.usable({"train.loss", "model.head"})) return;
  if (loss.function && head != Head::regression)
    return draft.report(
        Kind::loss_needs_head, {"train.loss", "model.head"},
        fmt::format("a loss of your own compares numbers, and the head is {}", to_string(head)),
        "only head: regression takes one; remove train.loss");
  const Loss fitting = head == Head::regression ? Loss::mse : Loss::cross_entropy;
  if (!loss.function && loss.word != fitting)
    draft.report(Kind::loss_needs_head, {"train.loss", "model.head"},
                 fmt::format("the loss {} does not fit the {} head", to_string(loss.word), to_string(head)),
                 fmt::format("write {}, or remove train.loss", to_string(fitting)));
}

// Sums over micro-batches lose what 16 bits cannot hold.
void check_gradients(Draft& draft) {
  const char *format = "optimizations.gradients", *steps = "train.gradient_accumulation_steps";
  const int64_t micro_batches = draft.spec.train.gradient_accumulation_steps;
  if (!draft.usable({format, steps, "optimizations.precision"}) ||
      draft.spec.optimizations.gradients == GradientType::fp32 ||
      computes_in_32_bits(draft.spec.optimizations.precision) || micro_batches == 1)
    return;
  draft.report(
      Kind::gradients_accumulate, {format, steps},
      waits_for_plan(draft.spec)
          ? "gradients of 16 bits cannot add up over micro-batches, as micro_batch_size: auto may ask"
          : fmt::format("gradients of 16 bits cannot add up over {} micro-batches", micro_batches),
      "write gradients: fp32, or gradient_accumulation_steps: 1");
}

// "" or why a spec file may not have hydrac write there: the folder must be relative and stay below the
// working folder, also where links on the way lead elsewhere, and hidden folders (.git) are other programs'.
// `hidden`: the one hidden folder that the path may begin with.
std::string unsafe_because(const std::string& written, std::string_view hidden) {
  constexpr const char* outside = "would write outside the working folder";
  const std::filesystem::path path(written);
  if (path.is_absolute()) return outside;
  const auto first = std::ranges::find_if(path, [](const auto& part) { return part != "."; });
  for (auto part = first; part != path.end(); ++part) {
    if (*part == "..") return outside;
    const bool allowed = *part == "." || (part == first && *part == hidden);
    if (!allowed && part->string().starts_with('.')) return "is in a hidden folder";
  }
  std::error_code error;
  const std::filesystem::path here = std::filesystem::canonical(".", error);
  const std::filesystem::path there = std::filesystem::weakly_canonical(here / path, error);
  if (error) return fmt::format("cannot be followed: {}", error.message());
  const bool below = std::mismatch(here.begin(), here.end(), there.begin(), there.end()).first == here.end();
  return below ? "" : "leads through a link to outside the working folder";
}

// A spec may come from anywhere, so what it writes stays below the working folder. Who types the command may
// choose.
void check_folder(Draft& draft, std::string_view path, const std::string& folder,
                  std::string_view hidden = "") {
  const diag::Location where = draft.spec.where(path);
  if (!draft.usable({path}) || where.on_command_line()) return;
  const std::string reason = unsafe_because(folder, hidden);
  if (reason.empty()) return;
  draft.report(
      Kind::unsafe_path, {path}, fmt::format("{} {} {}", path, diag::printable(folder), reason),
      fmt::format("write a relative path without .. or hidden folders, or give it on the command line: {}={}",
                  path, diag::printable(folder)));
}

void check_adapter(Draft& draft) {
  const auto& spec = draft.spec;
  if (!draft.usable({"adapter.type", "train.freeze"}) || spec.adapter.type == AdapterType::none ||
      spec.train.freeze.empty())
    return;
  draft.report(Kind::adapter_freezes, {"train.freeze", "adapter.type"},
               "beside an adapter all of the model's parameters are frozen", "remove train.freeze");
}

void check_base(Draft& draft) {
  const auto& spec = draft.spec;
  if (!draft.usable({"adapter.type", "adapter.base", "optimizations.precision"}) ||
      spec.adapter.type == AdapterType::none || spec.adapter.base != AdapterBase::nf4 ||
      spec.optimizations.precision != Precision::fp8)
    return;
  draft.report(Kind::base_unsupported, {"adapter.base", "optimizations.precision"},
               "matmuls of 8 bits keep 8-bit copies of the base, which nf4 is to save",
               "write precision: bf16, or remove adapter.base");
}

void check_best(Draft& draft) {
  const auto& spec = draft.spec;
  if (!draft.usable({"train.save_best", "train.eval_steps", "data.val_fraction"}) || !spec.train.save_best)
    return;
  const bool has_data = spec.data.val_fraction > 0 || !spec.data.val_path.empty() || !spec.data.val.empty();
  if (spec.train.eval_steps > 0 && has_data) return;
  draft.report(Kind::best_needs_validation, {"train.save_best"},
               "the best checkpoint is the one with the least validation loss, and nothing is validated",
               spec.train.eval_steps == 0 ? "write train.eval_steps: 250, or remove save_best"
                                          : "write data.val_fraction: 0.1, or remove save_best");
}

void check_chat_date(Draft& draft) {
  const std::string& text = draft.spec.data.chat_date;
  int year = 0, month = 0, day = 0, end = 0;
  const bool is_read = std::sscanf(text.c_str(), "%4d-%2d-%2d%n", &year, &month, &day, &end) == 3;
  const std::chrono::year_month_day date(std::chrono::year(year),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day)));
  if (text.size() == 10 && is_read && end == 10 && date.ok()) return;
  draft.report(Kind::unknown_value, {"data.chat_date"},
               fmt::format("data.chat_date is {}, which is no date", diag::printable(text, 40)),
               "write year-month-day, as 2024-07-26");
}

void check_profile(Draft& draft) {
  const auto& [start, steps] = draft.spec.profile;
  const int64_t max_steps = draft.spec.train.max_steps;
  if (steps == 0 || waits_for_data(draft.spec) ||
      !draft.usable({"profile.start", "profile.steps", "train.max_steps"}))
    return;
  if (start + steps - 1 <= max_steps) return;
  draft.report(Kind::profile_beyond_end, {"profile.steps", "profile.start", "train.max_steps"},
               fmt::format("the profile is of steps {} to {}, and the run ends after {}", start,
                           start + steps - 1, max_steps),
               max_steps >= steps ? fmt::format("profile.start can be {} at most", max_steps - steps + 1)
                                  : fmt::format("profile.steps can be {} at most", max_steps));
}

void check_end_of_sequence_warmup(Draft& draft) {
  const char *warmup = "train.sequence_warmup.steps", *max = "train.max_steps";
  const auto& t = draft.spec.train;
  if (!draft.usable({warmup, max}) || waits_for_data(draft.spec) || t.sequence_warmup.steps <= t.max_steps)
    return;
  draft.report(Kind::warmup_too_long, {warmup, max},
               fmt::format("sequence_warmup.steps ({}) is more than max_steps ({})", t.sequence_warmup.steps,
                           t.max_steps),
               fmt::format("steps can be {} at most", t.max_steps));
}

// Every rank has a core, and every thread.
void check_cores(Draft& draft) {
  const char *cores = "train.cpu_affinity", *threads = "optimizations.threads", *ranks = "parallel.data";
  const auto& spec = draft.spec;
  if (!draft.usable({cores, threads, ranks, "parallel.tensor"}) || spec.train.cpu_affinity.numbers.empty())
    return;
  const auto count = static_cast<int64_t>(spec.train.cpu_affinity.numbers.size());
  const int64_t of_a_rank = count / rank_count(spec);
  if (of_a_rank == 0)
    return draft.report(Kind::too_few_cores, {cores, ranks},
                        fmt::format("cpu_affinity has {} cores, and there are {} ranks (parallel.data)",
                                    count, rank_count(spec)),
                        "name a core for each rank at least");
  if (spec.optimizations.threads > of_a_rank)
    draft.report(Kind::too_few_cores, {threads, cores},
                 fmt::format("{} threads, and cpu_affinity has {} cores{}", spec.optimizations.threads,
                             of_a_rank, rank_count(spec) > 1 ? " for a rank" : ""),
                 "remove optimizations.threads: then there is one for each core");
}

}  // namespace

void check_schedule(Draft& draft) {
  check_end_of_sequence_warmup(draft);
  const auto& s = draft.spec.train.lr_scheduler;
  const int64_t steps = draft.spec.train.max_steps;
  if (!draft.usable({"train.max_steps", "train.lr_scheduler.warmup_steps"}) || waits_for_data(draft.spec))
    return;
  if (s.warmup_steps > steps)
    return draft.report(Kind::warmup_too_long, {"train.lr_scheduler.warmup_steps", "train.max_steps"},
                        fmt::format("warmup_steps ({}) is more than max_steps ({})", s.warmup_steps, steps),
                        fmt::format("{} would be usual", (steps + 9) / 10));
  if (draft.usable({"train.lr_scheduler.decay_steps", "train.lr_scheduler.name"}) &&
      s.name == Schedule::wsd && s.warmup_steps + s.decay_steps > steps)
    draft.report(Kind::decay_too_long, {"train.lr_scheduler.decay_steps", "train.max_steps"},
                 fmt::format("warmup_steps ({}) and decay_steps ({}) together are more than max_steps ({})",
                             s.warmup_steps, s.decay_steps, steps),
                 fmt::format("decay_steps can be {} at most", steps - s.warmup_steps));
}

void check_run(Draft& draft) {
  check_schedule(draft);
  check_loss(draft);
  check_gradients(draft);
  check_best(draft);
  check_adapter(draft);
  check_base(draft);
  check_profile(draft);
  check_chat_date(draft);
  check_cores(draft);
  check_folder(draft, "output.dir", draft.spec.output.dir);
  check_folder(draft, "data.cache_dir", draft.spec.data.cache_dir, ".cache");
}

}  // namespace hydrac::spec
