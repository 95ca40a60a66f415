# The libraries that programs emitted by hydrac link.
include(CMakeFindDependencyMacro)
find_dependency(fmt)
find_dependency(nlohmann_json)
find_dependency(Threads)
find_dependency(OpenMP COMPONENTS CXX)
# Only a program that links hydrac::text needs these; where they are missing, CMake says so of that target.
find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(PCRE2 QUIET IMPORTED_TARGET libpcre2-8)
  pkg_check_modules(UTF8PROC QUIET IMPORTED_TARGET libutf8proc)
  pkg_check_modules(ZLIB QUIET IMPORTED_TARGET zlib)
endif()
include(${CMAKE_CURRENT_LIST_DIR}/hydrac-runtime.cmake)
