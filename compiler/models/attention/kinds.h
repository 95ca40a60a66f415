// Every kind of attention: each declares its parameters and gives the block that uses them.
#pragma once
#include "models/attention/attention.h"

namespace hydrac::models {

std::unique_ptr<Attention> declare_gqa(Declarer&, const spec::Model&, double residual_deviation);
std::unique_ptr<Attention> declare_ccgqa(Declarer&, const spec::Model&, double residual_deviation);

}  // namespace hydrac::models
