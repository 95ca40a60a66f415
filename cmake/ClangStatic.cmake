# Clang 19 as one static library to link: `clang_static`. Of its packages' CMake files none is used: they link libLLVM.so
# and want all of clang-19 installed. A user's code takes Clang's headers as system headers.
#
# Linked with lld: it drops the two thirds of these archives that nobody calls, in a third of a second.

set(clang_help "hydrac is built with Clang 19's libraries, linked statically.
  Debian 12, Ubuntu 24.04: apt-get install libclang-19-dev llvm-19-dev lld-19 libzstd-dev zlib1g-dev
  Elsewhere: name LLVM 19's program with -DLLVM_CONFIG=/path/to/llvm-config; its libraries must be archives (.a).")

find_program(LLVM_CONFIG NAMES llvm-config-19 llvm-config HINTS /usr/lib/llvm-19/bin)
if(NOT LLVM_CONFIG)
  message(FATAL_ERROR "llvm-config of LLVM 19 was not found.\n${clang_help}")
endif()

function(llvm_config variable)
  execute_process(COMMAND ${LLVM_CONFIG} ${ARGN} OUTPUT_VARIABLE output ERROR_VARIABLE error RESULT_VARIABLE status
                  OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(status)
    message(FATAL_ERROR "${LLVM_CONFIG} ${ARGN} failed: ${error}\n${clang_help}")
  endif()
  set(${variable} "${output}" PARENT_SCOPE)
endfunction()

llvm_config(llvm_version --version)
if(NOT llvm_version MATCHES "^19\\.")
  message(FATAL_ERROR "${LLVM_CONFIG} is of LLVM ${llvm_version}; version 19 is needed.\n${clang_help}")
endif()
llvm_config(llvm_include --includedir)
llvm_config(llvm_libraries_folder --libdir)
llvm_config(llvm_programs --bindir)
llvm_config(llvm_libraries --link-static --libs frontendopenmp frontendhlsl option profiledata mcparser windowsdriver
            targetparser object support)

# An archive of this name, in `folder` if given.
function(static_library variable name)
  find_library(${variable} NAMES lib${name}.a HINTS ${ARGN})
  if(NOT ${variable})
    message(FATAL_ERROR "lib${name}.a was not found.\n${clang_help}")
  endif()
endfunction()

add_library(clang_static INTERFACE)
# What parses, formats and edits, each before what it calls.
foreach(name Format ToolingInclusions ToolingCore Rewrite Frontend Driver Parse Serialization Sema Analysis
        Edit ASTMatchers AST APINotes Lex Support Basic)
  static_library(CLANG_${name}_LIBRARY clang${name} ${llvm_libraries_folder})
  target_link_libraries(clang_static INTERFACE ${CLANG_${name}_LIBRARY})
endforeach()
string(REGEX MATCHALL "[A-Za-z0-9]+" llvm_names "${llvm_libraries}")
list(REMOVE_ITEM llvm_names l)
foreach(name IN LISTS llvm_names)
  string(REGEX REPLACE "^l" "" name "${name}")
  static_library(${name}_LIBRARY ${name} ${llvm_libraries_folder})
  target_link_libraries(clang_static INTERFACE ${${name}_LIBRARY})
endforeach()
static_library(ZSTD_STATIC_LIBRARY zstd)
static_library(ZLIB_STATIC_LIBRARY z)
target_link_libraries(clang_static INTERFACE ${ZSTD_STATIC_LIBRARY} ${ZLIB_STATIC_LIBRARY} rt ${CMAKE_DL_LIBS} m)

if(NOT EXISTS ${llvm_include}/clang/AST/ASTContext.h)
  message(FATAL_ERROR "Clang's headers are not in ${llvm_include}.\n${clang_help}")
endif()
target_include_directories(clang_static SYSTEM INTERFACE ${llvm_include})
target_compile_definitions(clang_static INTERFACE __STDC_CONSTANT_MACROS __STDC_FORMAT_MACROS __STDC_LIMIT_MACROS)

if(NOT EXISTS ${llvm_programs}/ld.lld)
  message(FATAL_ERROR "LLVM's linker, ${llvm_programs}/ld.lld, is not there.\n${clang_help}")
endif()
target_link_options(clang_static INTERFACE -B${llvm_programs} -fuse-ld=lld
                    -Wl,--gc-sections,--icf=all,-O2,--as-needed)
# At a fixed address: else Clang's tables are relocated at every start, which takes 2 ms. Sanitizers want it movable.
target_link_options(clang_static INTERFACE $<$<CONFIG:Release>:-no-pie>)
