/** The class Gpu of tabgpt._core: the core's half of training on a GPU. backends/wgpu.py runs what it plans.
 */
#include <memory>
#include <string>

#include "python.hpp"

namespace tabgpt::python {
namespace {

/** What a program left, as the core reads it: `count` floats at least. */
using Floats = py::array_t<float, py::array::c_style | py::array::forcecast>;

const float* floats(const char* what, const Floats& array, py::ssize_t count) {
  if (array.size() >= count) return array.data();
  throw CoreError(std::string(what) + " has " + std::to_string(array.size()) + " elements; it must have " +
                  std::to_string(count));
}

const char* text(const char* found) {
  if (found == nullptr) throw CoreError(tabgpt_last_error());
  return found;
}

class Gpu {
 public:
  Gpu(const Config& config, const std::string& mode, double max_binding_bytes, double max_buffer_bytes,
      const std::string& variants)
      : handle_(tabgpt_gpu_open(config.get(), mode.c_str(), max_binding_bytes, max_buffer_bytes,
                                variants.c_str()),
                tabgpt_gpu_close) {
    if (handle_ == nullptr) throw CoreError(tabgpt_last_error());
  }

  std::string plan() const { return text(tabgpt_gpu_plan(get())); }
  std::string programs(size_t batch, size_t length) {
    return text(tabgpt_gpu_programs(get(), batch, length));
  }

  py::dict memory() const {
    py::dict bytes;
    for (const char* role : kMemoryRoles) {
      bytes[role] = static_cast<uint64_t>(check_number(tabgpt_gpu_memory(get(), role)));
    }
    return bytes;
  }

  py::bytes inputs() const {
    const auto bytes = static_cast<size_t>(check_number(tabgpt_gpu_memory(get(), "tokens")));
    return py::bytes(static_cast<const char*>(tabgpt_gpu_inputs(get())), bytes);
  }

  void initial_values(const std::string& parameter, py::array_t<float, py::array::c_style>& out) const {
    check(tabgpt_gpu_initial_values(get(), parameter.c_str(), out.mutable_data()));
  }
  void weights_changed() { check(tabgpt_gpu_weights_changed(get())); }

  void set_tokens(const py::object& tokens) {
    const Ids ids = ids_of("tokens", tokens, 1);
    check(tabgpt_gpu_set_tokens(get(), ids.data(), static_cast<size_t>(ids.size())));
  }

  size_t step_number() const { return tabgpt_gpu_step_number(get()); }
  void set_step_number(size_t step) { check(tabgpt_gpu_set_step_number(get(), step)); }

  void fill_step(size_t micro) { check(tabgpt_gpu_fill_step(get(), micro)); }
  void end_step() { check(tabgpt_gpu_end_step(get())); }
  void read_stats(size_t step, const Floats& stats) {
    check(tabgpt_gpu_read_stats(get(), step, floats("stats", stats, 5)));
  }
  double metric(const std::string& name) const { return tabgpt_gpu_metric(get(), name.c_str()); }

  void fill_batch(const py::object& tokens, const py::object& targets, bool train, size_t step,
                  size_t micro) {
    const Ids x = ids_of("tokens", tokens, 2), y = ids_of("targets", targets, 2);
    check_same_shape(x, y);
    rows_ = x.size();
    check(tabgpt_gpu_fill_batch(get(), x.data(), y.data(), static_cast<size_t>(x.shape(0)),
                                static_cast<size_t>(x.shape(1)), train, step, micro));
  }
  double mean_loss(const Floats& losses) const {
    return tabgpt_gpu_mean_loss(get(), floats("losses", losses, rows_));
  }

  void evaluate_begin(const std::string& split, size_t n_batches) {
    check(tabgpt_gpu_evaluate_begin(get(), split.c_str(), n_batches));
  }
  void evaluate_fill() { check(tabgpt_gpu_evaluate_fill(get())); }
  bool evaluate_next(const Floats& losses) {
    const int more = tabgpt_gpu_evaluate_next(get(), losses.data());
    check(more);
    return more == 1;
  }

  void generate_begin(const py::object& prompt, double temperature, size_t top_k, double top_p,
                      uint32_t seed) {
    const Ids ids = ids_of("prompt", prompt, 1);
    check(tabgpt_gpu_generate_begin(get(), ids.data(), static_cast<size_t>(ids.size()), temperature, top_k,
                                    top_p, seed));
  }
  bool generate_fill() {
    const int prefill = tabgpt_gpu_generate_fill(get());
    check(prefill);
    return prefill == 1;
  }
  int32_t generate_next(const Floats& logits) {
    const int32_t token = tabgpt_gpu_generate_next(get(), logits.data());
    check(token);
    return token;
  }

 private:
  tabgpt_gpu* get() const { return handle_.get(); }

  std::unique_ptr<tabgpt_gpu, void (*)(tabgpt_gpu*)> handle_;
  py::ssize_t rows_ = 0;  // of the batch that was filled last
};

}  // namespace

void bind_gpu(py::module_& m) {
  m.def("gpu_variants", [] { return std::string(text(tabgpt_gpu_variants())); });
  py::class_<Gpu>(m, "Gpu", "A plan for a GPU, and what each pass uploads and reads.")
      .def(py::init<const Config&, const std::string&, double, double, const std::string&>(),
           py::arg("config"), py::arg("mode"), py::arg("max_binding_bytes"), py::arg("max_buffer_bytes"),
           py::arg("variants") = "")
      .def("plan", &Gpu::plan)
      .def("programs", &Gpu::programs, py::arg("batch"), py::arg("length"))
      .def("memory", &Gpu::memory)
      .def("inputs", &Gpu::inputs)
      .def("initial_values", &Gpu::initial_values, py::arg("parameter"), py::arg("out"))
      .def("weights_changed", &Gpu::weights_changed)
      .def("set_tokens", &Gpu::set_tokens, py::arg("tokens"))
      .def_property("step_number", &Gpu::step_number, &Gpu::set_step_number)
      .def("fill_step", &Gpu::fill_step, py::arg("micro"))
      .def("end_step", &Gpu::end_step)
      .def("read_stats", &Gpu::read_stats, py::arg("step"), py::arg("stats"))
      .def("metric", &Gpu::metric, py::arg("name"))
      .def("fill_batch", &Gpu::fill_batch, py::arg("tokens"), py::arg("targets"), py::arg("train") = false,
           py::arg("step") = 0, py::arg("micro") = 0)
      .def("mean_loss", &Gpu::mean_loss, py::arg("losses"))
      .def("evaluate_begin", &Gpu::evaluate_begin, py::arg("split"), py::arg("n_batches") = 0)
      .def("evaluate_fill", &Gpu::evaluate_fill)
      .def("evaluate_next", &Gpu::evaluate_next, py::arg("losses"))
      .def("generate_begin", &Gpu::generate_begin, py::arg("prompt"), py::arg("temperature") = 1.0,
           py::arg("top_k") = 0, py::arg("top_p") = 1.0, py::arg("seed") = 0)
      .def("generate_fill", &Gpu::generate_fill)
      .def("generate_next", &Gpu::generate_next, py::arg("logits"));
}

}  // namespace tabgpt::python
