/** What the parts of the module tabgpt._core share: errors, configs, token ids. */
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "tabgpt/c_api.h"

namespace tabgpt::python {

namespace py = pybind11;

/** Becomes the Python exception tabgpt._core.TabgptError. */
struct CoreError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline void check(int status) {
  if (status < 0) throw CoreError(tabgpt_last_error());
}

inline double check_number(double value) {
  if (std::isnan(value)) throw CoreError(tabgpt_last_error());
  return value;
}

// ---- config ----

class Config {
 public:
  /** From a dict of every field; numbers for numbers, text for choices. */
  explicit Config(const py::dict& fields) : handle_(tabgpt_config_new(), tabgpt_config_free) {
    if (handle_ == nullptr) throw CoreError(tabgpt_last_error());
    for (const auto& [key, value] : fields) {
      const auto name = py::str(key).cast<std::string>();
      if (py::isinstance<py::str>(value)) {
        check(tabgpt_config_set_choice(handle_.get(), name.c_str(), value.cast<std::string>().c_str()));
      } else {
        check(tabgpt_config_set(handle_.get(), name.c_str(), number(name, value)));
      }
    }
    check(tabgpt_config_check(handle_.get()));
  }

  const tabgpt_config* get() const { return handle_.get(); }
  uint64_t n_parameters() const {
    return static_cast<uint64_t>(check_number(tabgpt_config_parameters(get())));
  }
  double learning_rate(size_t step) const { return check_number(tabgpt_learning_rate(get(), step)); }

 private:
  static double number(const std::string& name, const py::handle& value) {
    PyObject* as_float = py::isinstance<py::bool_>(value) ? nullptr : PyNumber_Float(value.ptr());
    if (as_float == nullptr) {
      PyErr_Clear();
      throw CoreError(name + " is " + py::repr(value).cast<std::string>() +
                      "; it must be a number or a choice's text");
    }
    return py::reinterpret_steal<py::float_>(as_float).cast<double>();
  }

  std::unique_ptr<tabgpt_config, void (*)(tabgpt_config*)> handle_;
};

// ---- token ids ----

/** u32 values [shape], C-contiguous: a view of whatever holds them. */
class Ids {
 public:
  explicit Ids(py::buffer_info view) : view_(std::move(view)) {}
  const uint32_t* data() const { return static_cast<const uint32_t*>(view_.ptr); }
  py::ssize_t size() const { return view_.size; }
  py::ssize_t shape(size_t axis) const { return view_.shape[axis]; }

 private:
  py::buffer_info view_;
};

/** The view of a buffer that holds such values already, as array.array does; so ids need no numpy. */
inline std::optional<Ids> buffer_of_ids(const py::object& value, py::ssize_t ndim) {
  if (!PyObject_CheckBuffer(value.ptr()) || py::hasattr(value, "dtype")) return std::nullopt;
  py::buffer_info view = py::reinterpret_borrow<py::buffer>(value).request();
  const bool fits = view.ndim == ndim && view.item_type_is_equivalent_to<uint32_t>() &&
                    view.strides == py::detail::c_strides(view.shape, view.itemsize);
  return fits ? std::optional<Ids>(std::move(view)) : std::nullopt;
}

/** Whole numbers of any integer dtype as u32; out of u32's range or not of `ndim` axes is an error. */
inline Ids ids_of(const char* what, const py::object& value, py::ssize_t ndim) {
  if (std::optional<Ids> ids = buffer_of_ids(value, ndim)) return std::move(*ids);
  const py::array array = py::array::ensure(value);
  if (!array) {
    PyErr_Clear();
    throw CoreError(std::string(what) + " is not an array; pass integer ids");
  }
  const char kind = array.dtype().kind();
  if (kind != 'i' && kind != 'u' && array.size() > 0) {
    throw CoreError(std::string(what) + " has dtype " + py::str(array.dtype()).cast<std::string>() +
                    "; it must be an integer dtype");
  }
  if (array.ndim() != ndim) {
    throw CoreError(std::string(what) + " has " + std::to_string(array.ndim()) + " axes; it must have " +
                    std::to_string(ndim));
  }
  if (kind == 'i' || array.itemsize() > 4) {
    const auto wide = py::array_t<int64_t, py::array::c_style | py::array::forcecast>(array);
    for (py::ssize_t i = 0; i < wide.size(); ++i) {
      const int64_t id = wide.data()[i];
      if (id < 0 || id > std::numeric_limits<uint32_t>::max()) {
        throw CoreError(std::string(what) + "[" + std::to_string(i) + "] is " + std::to_string(id) +
                        "; ids are from 0 to vocab_size - 1");
      }
    }
  }
  return Ids(py::array_t<uint32_t, py::array::c_style | py::array::forcecast>(array).request());
}

inline void check_same_shape(const Ids& x, const Ids& y) {
  if (x.shape(0) == y.shape(0) && x.shape(1) == y.shape(1)) return;
  throw CoreError("tokens are " + std::to_string(x.shape(0)) + " x " + std::to_string(x.shape(1)) +
                  " and targets " + std::to_string(y.shape(0)) + " x " + std::to_string(y.shape(1)) +
                  "; they must have the same shape");
}

constexpr const char* kMemoryRoles[] = {"parameters", "gradients", "adam_m", "adam_v", "activations",
                                        "kv_cache",   "workspace", "tokens", "total"};

/** The class Gpu: python_gpu.cpp. */
void bind_gpu(py::module_& m);
/** The class GpuOp and step_flops: python_op.cpp. */
void bind_gpu_op(py::module_& m);

}  // namespace tabgpt::python
