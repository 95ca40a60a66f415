#pragma once

namespace hydrac::ir {

using ValueId = int;
inline constexpr ValueId kNoValue = -1;  // an optional operand that is absent

}  // namespace hydrac::ir
