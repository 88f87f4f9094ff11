/** The class GpuOp of tabgpt._core: one operation of the kernel sweep. tabgpt/sweep runs and times it. */
#include <memory>
#include <string>

#include "python.hpp"

namespace tabgpt::python {
namespace {

using Floats = py::array_t<float, py::array::c_style>;

class GpuOp {
 public:
  explicit GpuOp(const std::string& operation)
      : handle_(tabgpt_gpu_op_open(operation.c_str()), tabgpt_gpu_op_close) {
    if (handle_ == nullptr) throw CoreError(tabgpt_last_error());
  }

  std::string plan(const std::string& variants, double max_binding_bytes, double max_buffer_bytes) {
    const char* text =
        tabgpt_gpu_op_plan(handle_.get(), variants.c_str(), max_binding_bytes, max_buffer_bytes);
    if (text == nullptr) throw CoreError(tabgpt_last_error());
    return text;
  }

  /** out: as many elements as the plan gives the tensor. */
  void input(const std::string& name, Floats& out) const {
    check_status(tabgpt_gpu_op_input(handle_.get(), name.c_str(), out.mutable_data()));
  }

  double check(const std::string& variants, const std::string& name, const Floats& got) {
    return check_number(tabgpt_gpu_op_check(handle_.get(), variants.c_str(), name.c_str(), got.data()));
  }

 private:
  static void check_status(int status) { python::check(status); }

  std::unique_ptr<tabgpt_gpu_op, void (*)(tabgpt_gpu_op*)> handle_;
};

double step_flops(const Config& config) { return check_number(tabgpt_step_flops(config.get())); }

}  // namespace

void bind_gpu_op(py::module_& m) {
  py::class_<GpuOp>(m, "GpuOp", "One operation for a bench: plans for its variants, inputs, and the check.")
      .def(py::init<const std::string&>(), py::arg("operation"))
      .def("plan", &GpuOp::plan, py::arg("variants"), py::arg("max_binding_bytes"),
           py::arg("max_buffer_bytes"))
      .def("input", &GpuOp::input, py::arg("name"), py::arg("out"))
      .def("check", &GpuOp::check, py::arg("variants"), py::arg("name"), py::arg("got"));
  m.def("step_flops", &step_flops, py::arg("config"));
}

}  // namespace tabgpt::python
