// A libcudnn.so.9 that knows the backend API's rules but has no kernels: it records graphs, and its engines
// do what $FAKE_CUDNN_ENGINES says, a list of words: works, any-order (works, but is not deterministic),
// refuses.
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "runtime/cudnn/abi.h"

namespace {

using namespace hydrac::runtime::cudnn::abi;

struct Object {
  DescriptorType type;
  bool finalized = false;
  std::map<Attribute, std::vector<std::int64_t>> values;  // of every type; pointers as numbers
  std::size_t engine = 0;                                 // of configurations and what is read from them
};

std::string last_error, last_graph;

std::vector<std::string> engines() {
  const char* words = std::getenv("FAKE_CUDNN_ENGINES");
  std::istringstream stream(words != nullptr ? words : "works");
  std::vector<std::string> list;
  for (std::string word; stream >> word;) list.push_back(word);
  return list;
}

Object& object(std::int64_t address) {
  return *reinterpret_cast<Object*>(address);
}

std::size_t element_size(AttributeType type) {
  switch (type) {
    case AttributeType::boolean:
    case AttributeType::character:
      return 1;
    case AttributeType::int64:
    case AttributeType::handle:
    case AttributeType::void_pointer:
    case AttributeType::descriptor:
      return 8;
    default:
      return 4;
  }
}

// "7:bf16[2,4,128,64]" of tensors in memory, "1003" of those inside, "=1004" of scalars.
std::string tensor_text(const Object& tensor) {
  const auto& values = tensor.values;
  const std::int64_t id = values.at(Attribute::tensor_unique_id)[0];
  if (values.contains(Attribute::tensor_is_by_value)) return fmt::format("={}", id);
  if (values.contains(Attribute::tensor_is_virtual)) return fmt::format("{}", id);
  const auto type = static_cast<DataType>(values.at(Attribute::tensor_data_type)[0]);
  const char* name = type == DataType::bf16  ? "bf16"
                     : type == DataType::f16 ? "f16"
                     : type == DataType::f32 ? "f32"
                                             : "i32";
  return fmt::format("{}:{}[{}]", id, name, fmt::join(values.at(Attribute::tensor_dimensions), ","));
}

// "matmul 1523.1500=0 a=... b=... c=...": the attributes in the order of their numbers.
std::string operation_text(const Object& operation) {
  std::string text = operation.type == DescriptorType::operation_matmul      ? "matmul"
                     : operation.type == DescriptorType::operation_pointwise ? "pointwise"
                     : operation.type == DescriptorType::operation_reduction ? "reduce"
                                                                             : "reshape";
  for (const auto& [attribute, values] : operation.values) {
    const Object& part = object(values[0]);
    if (part.type == DescriptorType::tensor) {
      text += " " + tensor_text(part);
    } else if (part.values.contains(Attribute::pointwise_mode)) {
      text += fmt::format(" mode {}", part.values.at(Attribute::pointwise_mode)[0]);
    } else if (part.values.contains(Attribute::reduction_operator)) {
      text += fmt::format(" operator {}", part.values.at(Attribute::reduction_operator)[0]);
    }
  }
  return text + "\n";
}

Status fail(const std::string& message, Status status = static_cast<Status>(2000)) {
  last_error = message;
  return status;
}

}  // namespace

extern "C" {

std::size_t cudnnGetVersion() {
  return FAKE_CUDNN_VERSION;
}

const char* fake_cudnn_graph() {
  return last_graph.c_str();
}

const char* cudnnGetErrorString(Status status) {
  return is_not_supported(status) ? "CUDNN_STATUS_NOT_SUPPORTED" : "CUDNN_STATUS_BAD_PARAM";
}
void cudnnGetLastErrorString(char* message, std::size_t max_size) {
  std::strncpy(message, last_error.c_str(), max_size - 1);
  last_error.clear();
}
Status cudnnCreate(Handle* handle) {
  if (std::getenv("FAKE_CUDNN_NO_CONTEXT") != nullptr) return fail("there is no context\n");
  *handle = &last_graph;
  return Status::success;
}
Status cudnnDestroy(Handle) {
  return Status::success;
}
Status cudnnSetStream(Handle, Stream) {
  return Status::success;
}

Status cudnnBackendCreateDescriptor(DescriptorType type, Descriptor* descriptor) {
  *descriptor = new Object{type};
  return Status::success;
}
Status cudnnBackendDestroyDescriptor(Descriptor descriptor) {
  delete static_cast<Object*>(descriptor);
  return Status::success;
}

Status cudnnBackendSetAttribute(Descriptor descriptor, Attribute attribute, AttributeType type,
                                std::int64_t count, const void* values) {
  auto& object = *static_cast<Object*>(descriptor);
  if (object.finalized) return fail("the descriptor is finalized");
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::size_t size = element_size(type);
    std::memcpy(&numbers[i], static_cast<const char*>(values) + i * size, size);
    if (type == AttributeType::descriptor && !::object(numbers[i]).finalized)
      return fail("a part is not finalized");
  }
  object.values[attribute] = std::move(numbers);
  return Status::success;
}

Status cudnnBackendFinalize(Descriptor descriptor) {
  auto& object = *static_cast<Object*>(descriptor);
  object.finalized = true;
  if (object.type == DescriptorType::operation_graph) {
    last_graph.clear();
    for (const std::int64_t operation : object.values.at(Attribute::graph_operations)) {
      last_graph += operation_text(::object(operation));
    }
  }
  if (object.type == DescriptorType::execution_plan && object.values.contains(Attribute::plan_json)) {
    object.engine = static_cast<std::size_t>(object.values.at(Attribute::plan_json)[0] - 'a');
  } else if (object.type == DescriptorType::execution_plan) {
    object.engine = ::object(object.values.at(Attribute::plan_engine_config)[0]).engine;
    if (engines()[object.engine] == "refuses") return fail("too large", static_cast<Status>(3002));
  }
  return Status::success;
}

// Engines are numbered from 10; number e has one knob 24 of value e, and a workspace of 1000 e bytes.
Status cudnnBackendGetAttribute(Descriptor descriptor, Attribute attribute, AttributeType,
                                std::int64_t requested, std::int64_t* count, void* values) {
  const auto& from = *static_cast<Object*>(descriptor);
  const std::int64_t number = static_cast<std::int64_t>(from.engine) + 10;
  const auto give = [&](std::int64_t value, std::size_t bytes) { std::memcpy(values, &value, bytes); };
  const auto first = [&]() -> Object& { return **static_cast<Object**>(values); };
  *count = 1;
  switch (attribute) {
    case Attribute::heuristics_results:
      *count = static_cast<std::int64_t>(engines().size());
      for (std::int64_t i = 0; i < requested; ++i) {
        static_cast<Object**>(values)[i]->engine = static_cast<std::size_t>(i);
        static_cast<Object**>(values)[i]->finalized = true;
      }
      return Status::success;
    case Attribute::engine_config_engine:
    case Attribute::engine_config_knob_choices:
      first().engine = from.engine;
      return Status::success;
    case Attribute::engine_global_index:
    case Attribute::knob_choice_value:
      give(number, 8);
      return Status::success;
    case Attribute::knob_choice_type:
      give(24, 4);
      return Status::success;
    case Attribute::engine_numerical_note:
      give(engines()[from.engine] == "any-order" ? 4 : 0, 4);
      return Status::success;
    case Attribute::plan_json:  // one letter, the engine's
      if (requested > 0) *static_cast<char*>(values) = static_cast<char>('a' + from.engine);
      return Status::success;
    case Attribute::plan_workspace_size:
      give(1000 * number, 8);
      return Status::success;
    default:
      return fail("nothing to read");
  }
}

Status cudnnBackendExecute(Handle, Descriptor, Descriptor) {
  return Status::success;
}
}
