# Turns the declarations of shaders/*.wgsl into shaders.hpp, a C++ struct for each kernel: its problem
# sizes, its bindings and its overrides by name, so that what a plan binds is checked by the compiler.
# A kernel is a file with an entry point; the other files are included by `//! include NAME.wgsl`.
# A declaration that does not have its canonical form stops here, with its file and line.
get_filename_component(TABGPT_SHADERS ${CMAKE_CURRENT_LIST_DIR}/../shaders ABSOLUTE)
file(GLOB shader_files CONFIGURE_DEPENDS ${TABGPT_SHADERS}/*.wgsl)
list(SORT shader_files)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${shader_files})

# What WebGPU promises everywhere (its table of default limits).
set(max_storage_buffers 8)
set(max_invocations 256)

# The file's lines, included files in the place of their directive, each as "file:line|text". What CMake's
# lists would take apart (semicolons, brackets) is left out: no declaration's meaning hangs on it.
function(tabgpt_shader_lines file result)
  file(READ ${file} text)
  string(REGEX REPLACE "[][;\\]" "" text "${text}")
  string(REPLACE "\n" ";" lines "${text}")
  get_filename_component(name ${file} NAME)
  set(number 0)
  set(numbered "")
  foreach(line IN LISTS lines)
    math(EXPR number "${number} + 1")
    if(line MATCHES "^//! include (.*)$")
      if(NOT EXISTS ${TABGPT_SHADERS}/${CMAKE_MATCH_1})
        message(FATAL_ERROR "shaders/${name}:${number}: there is no file shaders/${CMAKE_MATCH_1} to include")
      endif()
      tabgpt_shader_lines(${TABGPT_SHADERS}/${CMAKE_MATCH_1} included)
      list(APPEND numbered "${included}")
    else()
      list(APPEND numbered "shaders/${name}:${number}|${line}")
    endif()
  endforeach()
  set(${result} "${numbered}" PARENT_SCOPE)
endfunction()

# "a: u32, b: f32," -> parallel lists of names and C++ types.
function(tabgpt_shader_fields where text names types)
  string(REGEX REPLACE "[ ,]*$" "" text "${text}")
  string(REGEX REPLACE ", *" ";" fields "${text}")
  set(found_names "")
  set(found_types "")
  foreach(field IN LISTS fields)
    if(NOT field MATCHES "^ *([A-Za-z_0-9]+): (u32|i32|f32)$")
      message(FATAL_ERROR "${where}: the field '${field}' is not of the form 'name: u32', i32 or f32")
    endif()
    list(APPEND found_names ${CMAKE_MATCH_1})
    string(REGEX REPLACE "^[ui]32$" "\\0_t" type ${CMAKE_MATCH_2})
    string(REGEX REPLACE "^u32_t$" "uint32_t" type ${type})
    string(REGEX REPLACE "^i32_t$" "int32_t" type ${type})
    string(REGEX REPLACE "^f32$" "float" type ${type})
    list(APPEND found_types ${type})
  endforeach()
  set(${names} "${found_names}" PARENT_SCOPE)
  set(${types} "${found_types}" PARENT_SCOPE)
endfunction()

function(tabgpt_shader_unique where name seen)
  if(name IN_LIST seen)
    message(FATAL_ERROR "${where}: the name ${name} is declared twice in this kernel")
  endif()
endfunction()

# One kernel's struct, appended to `structs`, and its row of the table, appended to `table`.
function(tabgpt_shader_kernel kernel lines)
  set(seen "")
  set(members "")
  set(words "")
  set(bindings "")
  set(accesses "")
  set(overrides "")
  set(override_names "")
  set(next 0)
  set(storage 0)
  set(size "")
  foreach(numbered IN LISTS lines)
    string(FIND "${numbered}" "|" at)
    string(SUBSTRING "${numbered}" 0 ${at} where)
    math(EXPR at "${at} + 1")
    string(SUBSTRING "${numbered}" ${at} -1 line)
    if(line MATCHES "^struct Params")
      if(NOT line MATCHES "^struct Params { (.*[^ ]) *}")
        message(FATAL_ERROR "${where}: write 'struct Params { name: u32, ... }' on one line")
      endif()
      tabgpt_shader_fields(${where} "${CMAKE_MATCH_1}" names types)
      foreach(name type IN ZIP_LISTS names types)
        tabgpt_shader_unique(${where} ${name} "${seen}")
        list(APPEND seen ${name})
        string(APPEND members "  ${type} ${name} = {};\n")
        list(APPEND words "word(${name})")
      endforeach()
    elseif(line MATCHES "@(group|binding)")
      if(NOT line MATCHES "^@group\\(0\\) @binding\\(([0-9]+)\\) var<(uniform|storage, read|storage, read_write)> ([A-Za-z_0-9]+): ([A-Za-z_0-9<>]+)$")
        message(FATAL_ERROR "${where}: write '@group(0) @binding(N) var<uniform or storage, read or storage, read_write> name: type;' on one line")
      endif()
      set(number ${CMAKE_MATCH_1})
      set(access "${CMAKE_MATCH_2}")
      set(name ${CMAKE_MATCH_3})
      set(type ${CMAKE_MATCH_4})
      if(NOT number EQUAL next)
        message(FATAL_ERROR "${where}: binding ${number}; the next one is ${next}: number them in order")
      endif()
      math(EXPR next "${next} + 1")
      string(REGEX REPLACE "^storage, " "" access "${access}")
      if(number EQUAL 0 AND NOT "${access} ${name} ${type}" STREQUAL "uniform p Params")
        message(FATAL_ERROR "${where}: binding 0 is 'var<uniform> p: Params'")
      elseif(number GREATER 0 AND access STREQUAL "uniform" AND NOT "${name} ${type}" STREQUAL "step Step")
        message(FATAL_ERROR "${where}: the only other uniform binding is 'var<uniform> step: Step'")
      endif()
      list(APPEND accesses "Access::${access}")
      if(number GREATER 0)
        tabgpt_shader_unique(${where} ${name} "${seen}")
        list(APPEND seen ${name})
        string(APPEND members "  Range ${name} = {};\n")
        list(APPEND bindings ${name})
      endif()
      if(NOT access STREQUAL "uniform")
        math(EXPR storage "${storage} + 1")
        if(storage GREATER max_storage_buffers)
          message(FATAL_ERROR "${where}: more than ${max_storage_buffers} storage buffers, which is what WebGPU promises")
        endif()
      endif()
    elseif(line MATCHES "^ *override")
      if(NOT line MATCHES "^override ([A-Z_0-9]+): u32 = ([0-9]+)u *(//.*)?$")
        message(FATAL_ERROR "${where}: write 'override NAME: u32 = 0u;' on one line")
      endif()
      tabgpt_shader_unique(${where} ${CMAKE_MATCH_1} "${seen}")
      list(APPEND seen ${CMAKE_MATCH_1})
      string(APPEND members "  uint32_t ${CMAKE_MATCH_1} = ${CMAKE_MATCH_2};\n")
      list(APPEND overrides "${CMAKE_MATCH_1}")
      list(APPEND override_names "\"${CMAKE_MATCH_1}\"")
    elseif(line MATCHES "@compute|@workgroup_size")
      if(NOT line MATCHES "^@compute @workgroup_size\\(([0-9]+)(, ([0-9]+))?\\)$")
        message(FATAL_ERROR "${where}: write '@compute @workgroup_size(64)' or '(16, 16)' on a line of its own")
      endif()
      set(size ${CMAKE_MATCH_1})
      if(CMAKE_MATCH_3)
        math(EXPR size "${CMAKE_MATCH_1} * ${CMAKE_MATCH_3}")
      endif()
      if(size GREATER max_invocations)
        message(FATAL_ERROR "${where}: ${size} invocations; WebGPU promises ${max_invocations}")
      endif()
    endif()
  endforeach()
  if(next EQUAL 0)
    message(FATAL_ERROR "shaders/${kernel}.wgsl: it declares no binding 0, 'var<uniform> p: Params'")
  endif()
  foreach(list words bindings overrides accesses override_names)
    list(JOIN ${list} ", " ${list})
  endforeach()
  string(APPEND structs "
struct ${kernel} {
${members}
  static constexpr Kernel kernel = Kernel::${kernel};
  static constexpr uint32_t workgroup = ${size};
  std::vector<uint32_t> words() const { return {${words}}; }
  std::vector<Range> bindings() const { return {${bindings}}; }
  std::vector<uint32_t> constants() const { return {${overrides}}; }
};
")
  string(APPEND table "    {\"${kernel}\", {${accesses}}, {${override_names}}},\n")
  set(structs "${structs}" PARENT_SCOPE)
  set(table "${table}" PARENT_SCOPE)
endfunction()

set(structs "")
set(table "")
set(kernels "")
set(step "")
set(stats "")
foreach(file IN LISTS shader_files)
  get_filename_component(kernel ${file} NAME_WE)
  tabgpt_shader_lines(${file} lines)
  if(kernel STREQUAL "step")
    set(inside FALSE)
    foreach(numbered IN LISTS lines)
      if(numbered MATCHES "^([^|]*)\\|struct Step {$")
        set(inside TRUE)
      elseif(numbered MATCHES "^[^|]*\\|}$")
        set(inside FALSE)
      elseif(inside)
        string(REGEX MATCH "^([^|]*)\\| *([^,]*)," found "${numbered}")
        tabgpt_shader_fields("${CMAKE_MATCH_1}" "${CMAKE_MATCH_2}" name type)
        string(APPEND step "  ${type} ${name} = {};\n")
      endif()
    endforeach()
  elseif(kernel STREQUAL "stats")
    foreach(numbered IN LISTS lines)
      if(numbered MATCHES "^[^|]*\\|const ([A-Z_]+): u32 = ([0-9]+)u")
        string(APPEND stats "constexpr uint32_t ${CMAKE_MATCH_1} = ${CMAKE_MATCH_2};\n")
        math(EXPR stats_count "${CMAKE_MATCH_2} + 1")
      endif()
    endforeach()
  elseif(lines MATCHES "@compute")
    list(APPEND kernels ${kernel})
    tabgpt_shader_kernel(${kernel} "${lines}")
  endif()
endforeach()
if(NOT step)
  message(FATAL_ERROR "shaders/step.wgsl: write 'struct Step {', a field a line, and '}'")
endif()
if(NOT stats)
  message(FATAL_ERROR "shaders/stats.wgsl: write 'const NAME: u32 = 0u;' for each of a step's results")
endif()
list(JOIN kernels ", " kernels)

file(WRITE ${TABGPT_GENERATED_DIR}/shaders.hpp.new
"// Written by shaders.cmake from shaders/*.wgsl.
#pragma once

#include <cstdint>
#include <vector>

#include \"gpu/program.hpp\"

namespace tabgpt::gpu {

/** shaders/step.wgsl's struct, word for word. */
struct Step {
${step}};

/** shaders/stats.wgsl: where each of a step's results lies in the tensor \"stats\". */
namespace stats {
${stats}constexpr uint32_t COUNT = ${stats_count};
}  // namespace stats

enum class Kernel : uint32_t { ${kernels} };

/** A kernel's file name, its bindings from 0 on, its overrides. */
struct KernelInfo {
  const char* name;
  std::vector<Access> accesses;
  std::vector<const char*> overrides;
};

inline const KernelInfo& info(Kernel kernel) {
  static const KernelInfo table[] = {
${table}  };
  return table[static_cast<uint32_t>(kernel)];
}

namespace wgsl {
${structs}
}  // namespace wgsl
}  // namespace tabgpt::gpu
")
file(COPY_FILE ${TABGPT_GENERATED_DIR}/shaders.hpp.new ${TABGPT_GENERATED_DIR}/tabgpt/shaders.hpp ONLY_IF_DIFFERENT)
