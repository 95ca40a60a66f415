#include "runtime/program/call_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <stdexcept>

namespace hydrac::runtime {

namespace {

// The rest of a line, without the space before it.
std::string rest_of(std::istream& words) {
  std::string rest;
  std::getline(words >> std::ws, rest);
  return rest;
}

TensorView read_view(std::istream& words, const std::string& name) {
  std::string type;
  size_t rank = 0;
  TensorView view;
  view.name = name;
  words >> type >> view.offset >> rank;
  view.dtype = dtype_named(type).value();
  view.shape.resize(rank);
  view.strides.resize(rank);
  for (int64_t& size : view.shape) words >> size;
  for (int64_t& stride : view.strides) words >> stride;
  return view;
}

}  // namespace

int64_t TensorView::bytes() const {
  int64_t last = 0;
  for (size_t d = 0; d < shape.size(); ++d) last += (shape[d] - 1) * strides[d];
  return (last + 1) * dtype_bytes(dtype);
}

CallTable::CallTable(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string kind, word;
    words >> kind;
    if (kind == "tensor") {
      Tensor& tensor = tensors_.emplace_back();
      words >> word >> tensor.stride >> tensor.apart >> tensor.slots;
      tensor.first = read_view(words, word);
    } else if (kind == "function") {
      words >> functions_.emplace_back().name;
    } else if (kind == "section") {
      Section& section = functions_.back().sections.emplace_back();
      words >> section.layers >> word;
      section.down = word == "down";
      words >> section.first_layer;  // left out where it is 0
    } else if (kind == "call") {
      Call& call = functions_.back().sections.back().calls.emplace_back();
      const std::string rest = rest_of(words);
      const size_t at = rest.find(" @ ");
      call = {rest.substr(0, at), rest.substr(at + 3), {}, {}};
    } else if (kind == "uses") {
      Call& call = functions_.back().sections.back().calls.back();
      std::vector<Use>* uses = &call.reads;
      while (words >> word) {
        if (word == "->")
          uses = &call.makes;
        else
          uses->push_back(read_use(word));
      }
    } else if (!kind.empty()) {
      throw std::logic_error("a table of calls has a line \"" + line + "\"");
    }
  }
}

CallTable::Use CallTable::read_use(const std::string& word) const {
  const size_t bracket = word.find('[');
  const auto found = std::ranges::find(tensors_, word.substr(0, bracket),
                                       [](const Tensor& tensor) { return tensor.first.name; });
  if (found == tensors_.end()) throw std::logic_error("a table of calls knows no tensor " + word);
  Use use{static_cast<size_t>(found - tensors_.begin()), false, 0};
  if (bracket == std::string::npos) return use;
  std::string slot = word.substr(bracket + 1);
  use.per_layer = slot[0] == 'l';
  if (use.per_layer) slot.erase(0, 1);
  use.slot = std::atoi(slot.c_str());  // of "]", 0
  return use;
}

std::vector<TensorView> CallTable::views(const std::vector<Use>& uses, int layer) const {
  std::vector<TensorView> views;
  for (const Use& use : uses) {
    const Tensor& tensor = tensors_[use.tensor];
    const int64_t slot = use.slot + (use.per_layer ? layer : 0);
    TensorView view = tensor.first;
    view.offset += slot % tensor.apart * tensor.stride;
    view.name.erase(std::min(view.name.find('~'), view.name.size()));
    if (tensor.slots > 1) view.name += fmt::format("[{}]", slot);
    views.push_back(std::move(view));
  }
  return views;
}

std::string TracedCall::text() const {
  return fmt::format("{}{} ({})", name, layer >= 0 ? fmt::format(" of layer {}", layer) : "", origin);
}

std::vector<TracedCall> CallTable::of(std::string_view name) const {
  std::vector<TracedCall> calls;
  const auto function = std::ranges::find(functions_, name, &Function::name);
  if (function == functions_.end()) return calls;
  for (const Section& section : function->sections) {
    const int iterations = std::max(section.layers, 1);
    for (int i = 0; i < iterations; ++i) {
      const int layer = section.down ? iterations - 1 - i : i;
      const int of_layer = section.layers > 0 ? section.first_layer + layer : -1;
      for (const Call& call : section.calls)
        calls.push_back(
            {call.name, of_layer, call.origin, views(call.reads, layer), views(call.makes, layer)});
    }
  }
  return calls;
}

}  // namespace hydrac::runtime
