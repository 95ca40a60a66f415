#include "runtime/data/item_loader.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <ranges>
#include <span>
#include <utility>

#include "runtime/data/difficulty.h"
#include "runtime/data/epoch_windows.h"
#include "runtime/error.h"

namespace hydrac::runtime {

namespace {

constexpr uint64_t kShuffleItems = 0;  // the purpose of an epoch's key

using Item = std::span<const MarkedToken>;

// One, or the two of a pair.
std::vector<Item> texts_of(Item item) {
  const auto rejected = std::ranges::find_if(item, &MarkedToken::is_rejected) - item.begin();
  if (rejected == std::ssize(item)) return {item};
  return {item.first(static_cast<size_t>(rejected)), item.subspan(static_cast<size_t>(rejected))};
}

size_t texts_in(Item item) {
  return item.back().is_rejected() ? 2 : 1;
}

// The part of an item that fits a sequence: all of it, or its beginning.
Item fitting(Item item, int64_t sequence_len) {
  return item.first(std::min(item.size(), static_cast<size_t>(sequence_len) + texts_in(item)));
}

int64_t positions_of(Item item) {
  return static_cast<int64_t>(item.size() - texts_in(item));
}

int64_t count_learned(Item item) {
  return std::ranges::count_if(item.subspan(1), [](MarkedToken token) { return !token.is_context(); });
}

// `items` from easy to hard; what of an item does not fit counts for nothing.
void sort_by_difficulty(const ItemStore& store, int64_t sequence_len, CurriculumOrder order,
                        std::vector<int64_t>& items) {
  if (order == CurriculumOrder::file) return;
  const auto ids_of = [&](int64_t index) {
    return fitting(store.item(index), sequence_len) | std::views::transform(&MarkedToken::id);
  };
  TokenRarity rarity;
  if (order == CurriculumOrder::rarity)
    for (const int64_t index : items) rarity.count(ids_of(index));
  sort_from_easy(items, [&](int64_t index) {
    const auto ids = ids_of(index);
    return order == CurriculumOrder::rarity ? rarity.mean(ids) : static_cast<double>(ids.size());
  });
}

}  // namespace

ItemDataset ItemDataset::split(std::shared_ptr<const ItemStore> store, double val_fraction) {
  const int64_t size = store->size();
  const auto val = static_cast<int64_t>(std::ceil(static_cast<double>(size) * val_fraction));
  if (val >= size)
    throw InputError(
        fmt::format("data.path has {} item{}, too few to keep some for validation: write "
                    "data.val_fraction: 0",
                    size, size == 1 ? "" : "s"));
  return {{store, 0, size - val}, {store, size - val, size}};
}

ItemDataset ItemDataset::separate(std::shared_ptr<const ItemStore> train,
                                  std::shared_ptr<const ItemStore> val) {
  const int64_t train_size = train->size(), val_size = val->size();
  return {{std::move(train), 0, train_size}, {std::move(val), 0, val_size}};
}

PackedItems::PackedItems(const ItemRange& range, int64_t sequence_len, bool cut,
                         std::optional<CurriculumOrder> order, int64_t most_items) {
  if (!range.store) return;
  std::vector<int64_t> items = choose(range, sequence_len, cut);
  if (order) sort_by_difficulty(*range.store, sequence_len, *order, items);
  pack(*range.store, items, sequence_len, most_items > 0 ? static_cast<size_t>(most_items) : items.size(),
       order ? kOpenSequences : items.size());
}

std::vector<int64_t> PackedItems::choose(const ItemRange& range, int64_t sequence_len, bool cut) {
  std::vector<int64_t> items;
  for (int64_t index = range.begin; index < range.end; ++index) {
    ++counts_.items;
    const Item whole = range.store->item(index), item = fitting(whole, sequence_len);
    const bool too_long = item.size() < whole.size();
    counts_.too_long += too_long;
    if (too_long && !cut) continue;
    const int64_t learned = count_learned(item);
    if (learned == 0) {
      ++counts_.untaught;
      continue;
    }
    counts_.positions += positions_of(item);
    counts_.targets += learned;
    items.push_back(index);
  }
  return items;
}

void PackedItems::pack(const ItemStore& store, const std::vector<int64_t>& items, int64_t sequence_len,
                       size_t most_items, size_t most_open) {
  std::multimap<int64_t, size_t> open;  // positions that are left of a sequence -> the sequence
  for (const int64_t index : items) {
    const int64_t positions = positions_of(fitting(store.item(index), sequence_len));
    auto fullest = open.lower_bound(positions);
    if (fullest == open.end()) {
      if (open.size() == most_open)
        open.erase(std::ranges::min_element(open, {}, &std::pair<const int64_t, size_t>::second));
      sequences_.emplace_back();
      fullest = open.emplace(sequence_len, sequences_.size() - 1);
    }
    const auto [room, sequence] = *fullest;
    sequences_[sequence].push_back(index);
    open.erase(fullest);
    if (room > positions && sequences_[sequence].size() < most_items)
      open.emplace(room - positions, sequence);
  }
}

ItemLoader::ItemLoader(ItemDataset dataset, ItemLoaderOptions options)
    : dataset_(std::move(dataset)),
      options_(options),
      train_(dataset_.train, options.sequence_len, options.cut,
             options.curriculum.steps > 0 ? std::optional(options.curriculum.by) : std::nullopt,
             options.pairs),
      val_(dataset_.val, options.sequence_len, options.cut, std::nullopt, options.pairs) {
  const auto require = [&](const PackedItems& items, const char* purpose) {
    const PackedItems::Counts& counts = items.counts();
    if (items.sequences() > 0) return;
    throw InputError(
        fmt::format("of {} items to {} none is left: {} are longer than the {} tokens of a sequence and the "
                    "one behind it, and "
                    "{} teach nothing; a larger train.sequence_len, or data.too_long: cut, keeps more",
                    counts.items, purpose, counts.too_long, options_.sequence_len, counts.untaught));
  };
  if (val_.counts().items > 0) require(val_, "validate with");
  require(train_, "train on");
}

void ItemLoader::clear(Batch& out) const {
  const auto count = static_cast<size_t>(options_.batch_size * options_.sequence_len);
  out.tokens.assign(count, 0);
  out.targets.assign(count, kIgnoredTarget);
  out.stage = {};
  if (options_.pairs > 0) {
    out.segments.assign(count, -1);
    out.pairs.assign(static_cast<size_t>(options_.batch_size * options_.pairs), -1);
  }
  if (!options_.with_documents) return;
  out.documents.resize(2 * count);
  out.positions.resize(count);
}

void ItemLoader::fill_row(const ItemRange& range, int64_t number, std::span<const int64_t> items, int64_t row,
                          Batch& out) const {
  const int64_t length = options_.sequence_len;
  const auto at = [&](int64_t position) { return static_cast<size_t>(row * length + position); };
  const auto add_document = [&](int64_t begin, int64_t end) {
    if (!options_.with_documents) return;
    for (int64_t i = begin; i < end; ++i) {
      out.documents[2 * at(i)] = static_cast<int32_t>(begin);
      out.documents[2 * at(i) + 1] = static_cast<int32_t>(end);
      out.positions[at(i)] = static_cast<int32_t>(i - begin);
    }
  };
  int64_t begin = 0;
  int32_t segment = 0;
  for (const int64_t index : items) {
    if (options_.pairs > 0)
      out.pairs[static_cast<size_t>(row * options_.pairs + segment / 2)] = number + index - range.begin;
    for (const Item text : texts_of(fitting(range.store->item(index), length))) {
      const auto positions = static_cast<int64_t>(text.size()) - 1;
      for (int64_t i = 0; i < positions; ++i) {
        const MarkedToken next = text[static_cast<size_t>(i) + 1];
        out.tokens[at(begin + i)] = text[static_cast<size_t>(i)].id();
        if (next.is_context()) continue;
        out.targets[at(begin + i)] = next.id();
        if (options_.pairs > 0) out.segments[at(begin + i)] = segment;
      }
      add_document(begin, begin + positions);
      begin += positions;
      ++segment;
    }
  }
  add_document(begin, length);  // empty: no target, and nobody sees it
}

int64_t ItemLoader::sequence_of(int64_t sample) const {
  const int64_t sequences = train_.sequences();
  if (options_.curriculum.draws(sample)) return options_.curriculum.draw(sample, sequences, options_.seed);
  sample -= options_.curriculum.samples();
  const int64_t epoch = sample / sequences, index = sample % sequences;
  const KeyedPermutation shuffle(sequences, epoch_key(options_.seed, epoch, kShuffleItems));
  return options_.shuffle ? shuffle(index) : index;
}

void ItemLoader::fill_train_row(int64_t sample, int64_t row, Batch& out) const {
  fill_row(dataset_.train, 0, train_.items_of(sequence_of(sample)), row, out);
}

BatchStage ItemLoader::stage(int64_t first_sample) const {
  return {.curriculum_share = options_.curriculum.share(first_sample)};
}

int64_t ItemLoader::eval_batches() const {
  return (val_.sequences() + options_.batch_size - 1) / options_.batch_size;
}

void ItemLoader::fill_eval(int64_t index, Batch& out) const {
  clear(out);
  for (int64_t row = 0; row < options_.batch_size; ++row) {
    const int64_t sequence = index * options_.batch_size + row;
    const bool is_there = sequence < val_.sequences();
    fill_row(dataset_.val, dataset_.train.end - dataset_.train.begin,
             is_there ? val_.items_of(sequence) : std::span<const int64_t>(), row, out);
  }
  count_targets(out);
}

std::string ItemLoader::description() const {
  const PackedItems::Counts &train = train_.counts(), &val = val_.counts();
  const auto percent = [](int64_t part, int64_t whole) {
    return 100 * static_cast<double>(part) / static_cast<double>(whole);
  };
  std::string text = fmt::format("{} {} in {} sequences, {:.1f}% full, {:.1f}% of tokens learned",
                                 train.items, options_.pairs > 0 ? "pairs" : "items", train_.sequences(),
                                 percent(train.positions, train_.sequences() * options_.sequence_len),
                                 percent(train.targets, train.positions));
  if (val.items > 0)
    text += fmt::format("; {} {} validate", val.items, options_.pairs > 0 ? "pairs" : "items");
  if (const int64_t count = train.too_long + val.too_long; count > 0)
    text += fmt::format("; {} longer than {} tokens {} {}", count,
                        options_.sequence_len + (options_.pairs > 0 ? 2 : 1), count == 1 ? "is" : "are",
                        options_.cut ? "cut" : "dropped");
  if (const int64_t count = train.untaught + val.untaught; count > 0)
    text += fmt::format("; {} without a token to learn {} dropped", count, count == 1 ? "is" : "are");
  return text;
}

}  // namespace hydrac::runtime
