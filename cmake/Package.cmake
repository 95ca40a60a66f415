# What `./dev package` makes of the "package" preset: a .deb by CPack; packaging/make-wheel.py makes the wheel from the same
# binary. Both carry everything that hydrac needs beside glibc, a C++ compiler and, the .deb, what apt has.
install(TARGETS hydrac RUNTIME DESTINATION bin COMPONENT hydrac)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION share/doc/hydrac COMPONENT hydrac)
# Written by packaging/notices.py at package time.
install(FILES ${PROJECT_BINARY_DIR}/THIRD-PARTY-NOTICES DESTINATION share/doc/hydrac COMPONENT hydrac)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME hydrac)
set(CPACK_PACKAGE_CONTACT "The hydrac authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "compiles a YAML spec of a model into its training program, and trains it")
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL hydrac)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_HYDRAC_PACKAGE_NAME hydrac)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
# g++ compiles kernels at run time (not Clang, which would bring another OpenMP); matmuls come from oneDNN or OpenBLAS. glibc's and OpenMP's packages are found
# by what the binary links.
set(CPACK_DEBIAN_PACKAGE_DEPENDS "g++, libdnnl2 | libdnnl3 | libopenblas0-pthread")
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# Of `hydrac build` alone.
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "cmake, libfmt-dev, nlohmann-json3-dev, libpcre2-dev, libutf8proc-dev, zlib1g-dev, libzstd-dev, pkg-config")
include(CPack)
