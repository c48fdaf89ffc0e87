# culprit_library(NAME [EXCEPTIONS] [UNITY] LINK ...): the static library
# culpritNAME of every .cpp in the folder. Globbing keeps "a reader is two files
# and a line" true. UNITY compiles several files in one run, which halves the
# time where headers dominate; no two files of such a folder may have a static
# constant or type of one name, nor functions of one name and parameters.

add_compile_options(-Wall -Wextra -Wno-unused-parameter
  # GCC 12 sees overflows in std::string that are not there (GCC PR 105651).
  $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overflow>
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
  $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds>
  $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overread>
  -ffile-prefix-map=${CMAKE_SOURCE_DIR}/=)
if(CULPRIT_SANITIZE)
  add_compile_options(-fsanitize=${CULPRIT_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${CULPRIT_SANITIZE})
endif()

set(CULPRIT_LANGUAGE_FLAGS
  $<$<COMPILE_LANGUAGE:CXX>:-fno-rtti> $<$<COMPILE_LANGUAGE:CXX>:-fno-exceptions>)

function(culprit_library name)
  cmake_parse_arguments(ARG "EXCEPTIONS;UNITY" "" "LINK" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS *.cpp)
  if(NOT sources)
    add_library(culprit${name} INTERFACE)
    target_link_libraries(culprit${name} INTERFACE ${ARG_LINK})
    return()
  endif()
  add_library(culprit${name} STATIC ${sources})
  target_include_directories(culprit${name} PUBLIC ${CMAKE_SOURCE_DIR}/lib)
  target_include_directories(culprit${name} SYSTEM PUBLIC ${LLVM_INCLUDE_DIRS})
  target_compile_definitions(culprit${name} PUBLIC
    CULPRIT_VERSION="${PROJECT_VERSION}")
  target_link_libraries(culprit${name} PUBLIC ${ARG_LINK})
  if(ARG_UNITY)
    set_target_properties(culprit${name} PROPERTIES
      UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 5)
    # A type of an unnamed namespace is of one file still.
    target_compile_options(culprit${name} PRIVATE
      $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  endif()
  if(ARG_EXCEPTIONS)
    # Lua errors unwind as C++ exceptions.
    target_compile_options(culprit${name} PRIVATE -fno-rtti)
  else()
    target_compile_options(culprit${name} PRIVATE ${CULPRIT_LANGUAGE_FLAGS})
    if(name STREQUAL "Support")
      target_precompile_headers(culprit${name} PRIVATE
        ${CMAKE_SOURCE_DIR}/lib/Support/Precompiled.h)
    else()
      target_precompile_headers(culprit${name} REUSE_FROM culpritSupport)
    endif()
  endif()
endfunction()
