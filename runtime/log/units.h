// Numbers for people: 34.5k, 1.5 GiB, 0:42. Independent of the locale.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace hydrac::runtime {

std::string human_count(double count);       // 999, 34.5k, 1.25M, 124M, 3.2G, 1.1T: three digits
std::string human_bytes(uint64_t bytes);     // 512 B, 1.50 KiB, 23.4 MiB, 141 GiB: three digits
std::string human_duration(double seconds);  // 0:42, 12:05, 3:07:59, 2d 03:04:05; negative or not finite: "?"
std::string counted(int64_t count, std::string_view noun);  // 1 document, 3 documents

}  // namespace hydrac::runtime
