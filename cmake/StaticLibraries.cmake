# HYDRAC_STATIC: archives instead of shared libraries, so that one binary runs on every Linux with a glibc at least as new.
# OpenMP's library stays shared: hydrac loads kernels and oneDNN, which use it too, and a process must have it once.
# Included after what stays shared was found.

# Debian has fmt as a shared library and as headers, which is enough to make the archive. Users of it are compiled as
# those of the shared one, so that a compiler cache knows them.
if(NOT fmt_VERSION VERSION_LESS 10)
  message(FATAL_ERROR "HYDRAC_STATIC: packaging/fmt.cpp is for fmt 9, and this is fmt ${fmt_VERSION}.")
endif()
add_library(fmt_archive STATIC packaging/fmt.cpp)
target_compile_definitions(fmt_archive PUBLIC FMT_SHARED)
add_library(hydrac_fmt INTERFACE IMPORTED GLOBAL)  # imported as fmt::fmt is, so that runtime/ can export what links it
target_link_libraries(hydrac_fmt INTERFACE fmt_archive)
set(HYDRAC_FMT hydrac_fmt)

# PCRE2 and utf8proc, which runtime/text finds by pkg-config.
set(CMAKE_FIND_LIBRARY_SUFFIXES .a)

find_library(YAML_CPP_ARCHIVE yaml-cpp)
if(NOT YAML_CPP_ARCHIVE)
  message(FATAL_ERROR "HYDRAC_STATIC: libyaml-cpp.a was not found (Debian, Ubuntu: libyaml-cpp-dev).")
endif()
set(YAML_CPP_LIBRARIES ${YAML_CPP_ARCHIVE})
