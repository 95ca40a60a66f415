#include "spec/keys/enums.h"

#include <array>

namespace hydrac::spec {

#define ENUM(type)                               \
  std::span<const EnumValue> enum_values(type) { \
    static constexpr auto values = std::to_array<EnumValue>({
#define VALUE(name, spelling, doc) {spelling, doc},
#define END_ENUM \
  });            \
  return values; \
  }
#include "spec/keys/enums.def"
#undef ENUM
#undef VALUE
#undef END_ENUM

#define ENUM(type)                                                  \
  std::string_view to_string(type value) {                          \
    return enum_values(value)[static_cast<size_t>(value)].spelling; \
  }
#define VALUE(name, spelling, doc)
#define END_ENUM
#include "spec/keys/enums.def"
#undef ENUM
#undef VALUE
#undef END_ENUM

}  // namespace hydrac::spec
