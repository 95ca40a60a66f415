# How the folders of runtime/ declare themselves, whoever builds them: hydrac, an emitted program that carries runtime/
# and templates/ along, or a build of the package alone.

# Headers are included as "runtime/train/train.h", "cuda/types.cuh" and "hydrac/random.h": from the folder that holds
# runtime/, from templates/ beside it and from templates/include.
get_filename_component(HYDRAC_RUNTIME_ROOT ${CMAKE_CURRENT_LIST_DIR}/../.. ABSOLUTE)
set(HYDRAC_RUNTIME_INCLUDE include/hydrac-runtime)  # where they are installed

# A project that includes this one may have a target of its own for fmt.
if(NOT HYDRAC_FMT)
  set(HYDRAC_FMT fmt::fmt)
endif()

# hydrac_runtime_needs(TARGET find_package's arguments): finds a package unless its target is there. The target is seen
# by the projects that include this one.
macro(hydrac_runtime_needs target)
  if(NOT TARGET ${target})
    find_package(${ARGN})
    set_target_properties(${target} PROPERTIES IMPORTED_GLOBAL TRUE)
  endif()
endmacro()

# hydrac_runtime_library(NAME [PARTS folder...] [DEPENDS lib...] [PRIVATE lib...]): every .cpp of this folder, and of the
# folders in it that PARTS names, as the static library runtime_NAME, for users hydrac::NAME. Products and sums are not contracted, so that results do not depend on the flags
# that a program is built with.
function(hydrac_runtime_library name)
  cmake_parse_arguments(ARG "" "" "PARTS;DEPENDS;PRIVATE" ${ARGN})
  list(TRANSFORM ARG_PARTS APPEND /*.cpp)
  file(GLOB sources CONFIGURE_DEPENDS *.cpp ${ARG_PARTS})
  set(library runtime_${name})
  add_library(${library} STATIC ${sources})
  add_library(hydrac::${name} ALIAS ${library})
  target_compile_features(${library} PUBLIC cxx_std_20)
  target_compile_options(${library} PRIVATE -ffp-contract=off ${HYDRAC_WARNINGS})
  foreach(folder "" /templates /templates/include)
    target_include_directories(${library} PUBLIC $<BUILD_INTERFACE:${HYDRAC_RUNTIME_ROOT}${folder}>
                               $<INSTALL_INTERFACE:${HYDRAC_RUNTIME_INCLUDE}${folder}>)
  endforeach()
  target_link_libraries(${library} PUBLIC ${HYDRAC_FMT} ${ARG_DEPENDS} PRIVATE ${ARG_PRIVATE})
  # Several files are compiled as one, which takes a third of the time.
  set_target_properties(${library} PROPERTIES EXPORT_NAME ${name} UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12
                        POSITION_INDEPENDENT_CODE ON)  # a program may be a shared library
  set_property(GLOBAL APPEND PROPERTY HYDRAC_RUNTIME_LIBRARIES ${library})
  install(TARGETS ${library} EXPORT hydrac-runtime ARCHIVE DESTINATION lib COMPONENT hydrac-runtime)
endfunction()
