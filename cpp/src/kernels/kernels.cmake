# The kernels' sources and how they are compiled; include it from the core's CMakeLists.txt and call
# tabgpt_add_kernels(<target>).

set(TABGPT_KERNEL_SOURCES
    adamw.cpp
    attention.cpp
    attention_backward.cpp
    cross_entropy.cpp
    dropout.cpp
    embedding.cpp
    gelu.cpp
    gemm.cpp
    layernorm.cpp
    reduce.cpp
    table.cpp)
set(TABGPT_KERNEL_ONCE_SOURCES dispatch.cpp)
# Fusing a product and a sum is left to madd() in simd.hpp; NaN must survive.
set(TABGPT_KERNEL_OPTIONS -O3 -fno-math-errno -fno-trapping-math -ffp-contract=off)
set(TABGPT_KERNEL_DIR ${CMAKE_CURRENT_LIST_DIR})

# Adds the kernels to a target: once for the target's own ISA, and on x86-64 again for AVX2 with FMA.
function(tabgpt_add_kernels target)
  list(TRANSFORM TABGPT_KERNEL_SOURCES PREPEND ${TABGPT_KERNEL_DIR}/ OUTPUT_VARIABLE sources)
  list(TRANSFORM TABGPT_KERNEL_ONCE_SOURCES PREPEND ${TABGPT_KERNEL_DIR}/ OUTPUT_VARIABLE once)
  add_library(${target}_kernels OBJECT ${sources} ${once})
  set(objects ${target}_kernels)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$" AND NOT EMSCRIPTEN)
    add_library(${target}_kernels_avx2 OBJECT ${sources})
    target_compile_options(${target}_kernels_avx2 PRIVATE -mavx2 -mfma)
    list(APPEND objects ${target}_kernels_avx2)
  endif()
  foreach(object IN LISTS objects)
    target_compile_features(${object} PRIVATE cxx_std_20)
    target_compile_options(${object} PRIVATE -Wall -Wextra ${TABGPT_KERNEL_OPTIONS})
    target_compile_definitions(${object} PRIVATE $<TARGET_PROPERTY:${target},COMPILE_DEFINITIONS>)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${object}>)
  endforeach()
endfunction()
