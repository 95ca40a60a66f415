#include "runtime/cudnn/descriptor.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace hydrac::runtime::cudnn {
namespace {

std::string with_number(const char* tried, abi::Attribute attribute) {
  return fmt::format("{} {}", tried, static_cast<int>(attribute));
}

}  // namespace

Descriptor::Descriptor(const Library& library, abi::DescriptorType type) : library_(&library) {
  library_->check(library_->create_descriptor(type, &descriptor_),
                  fmt::format("create a descriptor of type {}", static_cast<int>(type)).c_str());
  content_.add(static_cast<std::uint64_t>(type));
}

Descriptor::~Descriptor() {
  if (descriptor_ != nullptr) library_->destroy_descriptor(descriptor_);
}

Descriptor::Descriptor(Descriptor&& other) noexcept
    : library_(other.library_),
      descriptor_(std::exchange(other.descriptor_, nullptr)),
      content_(other.content_) {}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(library_, other.library_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(content_, other.content_);
  return *this;
}

void Descriptor::set(abi::Attribute attribute, const Descriptor& value) {
  set_all(attribute, std::vector<const Descriptor*>{&value});
}

void Descriptor::set_all(abi::Attribute attribute, const std::vector<const Descriptor*>& values) {
  std::vector<abi::Descriptor> raw;
  for (const Descriptor* value : values) {
    raw.push_back(value->descriptor_);
    const std::uint64_t content = value->content();
    note(attribute, &content, sizeof(content));
  }
  set(attribute, abi::AttributeType::descriptor, static_cast<std::int64_t>(raw.size()), raw.data());
}

void Descriptor::note(abi::Attribute attribute, const void* values, std::size_t bytes) {
  content_.add(static_cast<std::uint64_t>(attribute));
  content_.add(std::string_view(static_cast<const char*>(values), bytes));
}

void Descriptor::set(abi::Attribute attribute, abi::AttributeType type, std::int64_t count,
                     const void* values) {
  library_->check(library_->set_attribute(descriptor_, attribute, type, count, values),
                  with_number("set attribute", attribute).c_str());
}

void Descriptor::finalize(const char* what) {
  library_->check(library_->finalize(descriptor_), fmt::format("build {}", what).c_str());
}

std::int64_t Descriptor::read(abi::Attribute attribute, abi::AttributeType type, std::int64_t count,
                              void* values) const {
  std::int64_t available = 0;
  library_->check(library_->get_attribute(descriptor_, attribute, type, count, &available, values),
                  with_number("read attribute", attribute).c_str());
  return available;
}

}  // namespace hydrac::runtime::cudnn
