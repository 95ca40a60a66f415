// PLAN.md of an emitted program: the numbers, once. Work and floor of every call, the memory map, what each
// pass decided.
#pragma once
#include <string>

#include "emit/emit.h"
#include "emit/tensors.h"

namespace hydrac::emit {

std::string plan_page(const driver::Compiled& compiled, const Tensors& tensors, const Origin& origin);

}  // namespace hydrac::emit
