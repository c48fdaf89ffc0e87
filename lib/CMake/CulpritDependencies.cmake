# Every dependency, each with the package that brings it on Debian and Ubuntu.

find_package(LLVM 19.1 CONFIG HINTS /usr/lib/llvm-19)
if(NOT LLVM_FOUND)
  message(FATAL_ERROR
    "LLVM 19 is missing; install llvm-19-dev or run scripts/quickstart")
endif()
# Static LLVMSupport alone: 1.3 MB and a start under 5 ms. libLLVM.so would
# cost 51 MB and put 300 foreign options into --help.
llvm_map_components_to_libnames(CULPRIT_LLVM_LIBS support)

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
function(culprit_require target module package)
  pkg_check_modules(${target} IMPORTED_TARGET GLOBAL ${module})
  if(NOT ${target}_FOUND)
    message(FATAL_ERROR
      "${module} is missing; install ${package} or run scripts/quickstart")
  endif()
endfunction()

# The C++ build of Lua unwinds C++ frames when a script fails; the C build
# would longjmp over them.
culprit_require(LUA lua5.4-c++ liblua5.4-dev)
culprit_require(SQLITE sqlite3 libsqlite3-dev)
culprit_require(CMARK libcmark libcmark-dev)
culprit_require(SIMDJSON simdjson libsimdjson-dev)
culprit_require(ISAL libisal libisal-dev)
culprit_require(ZSTD libzstd libzstd-dev)
culprit_require(HWY libhwy libhwy-dev)
