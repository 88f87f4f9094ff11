#include "tabgpt/error.hpp"

#include <cstdarg>
#include <cstdio>

namespace tabgpt {
namespace {

thread_local char text[1024] = "";

}  // namespace

bool fail(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return false;
}

const char* last_error() { return text; }

}  // namespace tabgpt
