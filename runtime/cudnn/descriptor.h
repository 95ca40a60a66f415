// One object of cuDNN's backend API: created, given attributes, finalized, read.
#pragma once
#include <cstdint>
#include <type_traits>
#include <vector>

#include "runtime/cudnn/library.h"
#include "runtime/data/hash.h"

namespace hydrac::runtime::cudnn {

// Owned, movable. The library must outlive it. Every call throws as Library::check does.
class Descriptor {
 public:
  Descriptor(const Library& library, abi::DescriptorType type);
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;

  abi::Descriptor get() const { return descriptor_; }
  // A hash of the type, the values that were set and the contents of the descriptors that were set: equal for
  // equal descriptors.
  std::uint64_t content() const { return content_.value(); }

  // Integers and enums; cuDNN's tag for the type follows from the C++ type.
  template <class Value>
  void set(abi::Attribute attribute, const Value& value) {
    set(attribute, type_of<Value>(), 1, &value);
    note(attribute, &value, sizeof(Value));
  }
  template <class Value>
  void set_all(abi::Attribute attribute, const std::vector<Value>& values) {
    set(attribute, type_of<Value>(), static_cast<std::int64_t>(values.size()), values.data());
    note(attribute, values.data(), values.size() * sizeof(Value));
  }
  void set(abi::Attribute attribute, const Descriptor& value);
  void set_all(abi::Attribute attribute, const std::vector<const Descriptor*>& values);
  // For values whose C++ type does not imply cuDNN's (a handle is a plain pointer); not part of content().
  void set(abi::Attribute attribute, abi::AttributeType type, std::int64_t count, const void* values);
  // `what` is for the message: cuDNN cannot build "the operation graph".
  void finalize(const char* what);

  template <class Value>
  Value read(abi::Attribute attribute) const {
    Value value{};
    read(attribute, type_of<Value>(), 1, &value);
    return value;
  }
  // Fills at most `count` values; returns how many there are. cuDNN fills descriptors that the caller made.
  std::int64_t read(abi::Attribute attribute, abi::AttributeType type, std::int64_t count,
                    void* values) const;

 private:
  template <class Value>
  static constexpr abi::AttributeType type_of() {
    using abi::AttributeType;
    if constexpr (std::is_same_v<Value, std::int64_t>) return AttributeType::int64;
    if constexpr (std::is_same_v<Value, bool>) return AttributeType::boolean;
    if constexpr (std::is_same_v<Value, void*>) return AttributeType::void_pointer;
    if constexpr (std::is_same_v<Value, abi::DataType>) return AttributeType::data_type;
    if constexpr (std::is_same_v<Value, abi::PointwiseMode>) return AttributeType::pointwise_mode;
    if constexpr (std::is_same_v<Value, abi::ReductionOperator>) return AttributeType::reduction_operator;
    if constexpr (std::is_same_v<Value, abi::HeuristicsMode>) return AttributeType::heuristics_mode;
  }

  void note(abi::Attribute attribute, const void* values, std::size_t bytes);

  const Library* library_;
  abi::Descriptor descriptor_ = nullptr;
  Hash64 content_;
};

}  // namespace hydrac::runtime::cudnn
