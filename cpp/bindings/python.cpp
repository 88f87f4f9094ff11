/** tabgpt._core: the C ABI for Python, with zero-copy views of named tensors and the GIL released in passes.
 */
#include "python.hpp"

#include <pybind11/stl.h>

#include <mutex>
#include <optional>
#include <vector>

namespace {

namespace py = pybind11;
using namespace tabgpt::python;

py::dict memory(const Config& config, const std::string& mode, size_t threads, size_t n_tokens) {
  py::dict bytes;
  for (const char* role : kMemoryRoles) {
    const double value = check_number(tabgpt_memory(config.get(), mode.c_str(), threads, n_tokens, role));
    bytes[role] = static_cast<uint64_t>(value);
  }
  return bytes;
}

// ---- session ----

/** Views hold this, so that the memory outlives close() while one of them lives. */
using Handle = std::shared_ptr<tabgpt_session>;

class Session {
 public:
  Session(const Config& config, const std::string& mode, size_t threads) {
    tabgpt_session* opened;
    {
      py::gil_scoped_release release;
      opened = tabgpt_open(config.get(), mode.c_str(), threads);
    }
    if (opened == nullptr) throw CoreError(tabgpt_last_error());
    handle_ = Handle(opened, tabgpt_close);
    vocab_size_ = tabgpt_tensor_dim(opened, "transformer.wte.weight", 0);
  }

  void close() {
    const auto lock = own();
    handle_.reset();
  }

  size_t threads() { return tabgpt_threads(open()); }

  double thread_tiles(size_t thread) { return check_number(tabgpt_thread_tiles(open(), thread)); }

  void init_weights() {
    run([](tabgpt_session* s) { return tabgpt_init_weights(s); });
  }

  void set_tokens(const py::object& tokens) {
    const Ids ids = ids_of("tokens", tokens, 1);
    run([&](tabgpt_session* s) { return tabgpt_set_tokens(s, ids.data(), static_cast<size_t>(ids.size())); });
  }

  std::vector<std::string> names() {
    tabgpt_session* s = open();
    std::vector<std::string> names;
    for (size_t i = 0; i < tabgpt_tensor_count(s); ++i) names.emplace_back(tabgpt_tensor_name(s, i));
    return names;
  }

  /** A live view: writing changes the session. */
  py::array_t<float> tensor(const std::string& name) {
    tabgpt_session* s = open();
    float* data = tabgpt_tensor_data(s, name.c_str());
    if (data == nullptr) throw CoreError(tabgpt_last_error());
    std::vector<py::ssize_t> shape;
    for (size_t axis = 0; axis < tabgpt_tensor_ndim(s, name.c_str()); ++axis) {
      shape.push_back(static_cast<py::ssize_t>(tabgpt_tensor_dim(s, name.c_str(), axis)));
    }
    const py::capsule owner(new Handle(handle_), [](void* handle) { delete static_cast<Handle*>(handle); });
    return py::array_t<float>(shape, data, owner);
  }

  size_t step_number() { return tabgpt_step_number(open()); }

  void set_step_number(size_t step) {
    run([&](tabgpt_session* s) { return tabgpt_set_step_number(s, step); });
  }

  void step() {
    run([](tabgpt_session* s) { return tabgpt_step(s); });
  }

  double metric(const std::string& name) {
    tabgpt_session* s = open();
    // A loss may itself be NaN: an error is what changes the text.
    const double value = tabgpt_metric(s, name.c_str());
    if (std::isnan(value) &&
        std::string(tabgpt_last_error()).rfind("unknown metric '" + name + "'", 0) == 0) {
      throw CoreError(tabgpt_last_error());
    }
    return value;
  }

  double loss(const py::object& tokens, const py::object& targets, bool train, size_t step, size_t micro) {
    return pass(tabgpt_loss, tokens, targets, train, step, micro);
  }

  double loss_and_grads(const py::object& tokens, const py::object& targets, bool train, size_t step,
                        size_t micro) {
    return pass(tabgpt_loss_and_grads, tokens, targets, train, step, micro);
  }

  py::array_t<float> logits(const py::object& tokens) {
    const Ids ids = ids_of("tokens", tokens, 2);
    const auto batch = static_cast<size_t>(ids.shape(0)), length = static_cast<size_t>(ids.shape(1));
    py::array_t<float> out({batch, length, vocab_size_});
    float* data = out.mutable_data();
    run([&](tabgpt_session* s) { return tabgpt_logits(s, ids.data(), batch, length, data); });
    return out;
  }

  void evaluate_begin(const std::string& split, size_t n_batches) {
    run([&](tabgpt_session* s) { return tabgpt_evaluate_begin(s, split.c_str(), n_batches); });
  }

  bool evaluate_next() {
    return run([](tabgpt_session* s) { return tabgpt_evaluate_next(s); }) == 1;
  }

  /** The whole evaluation; Ctrl-C is looked for between batches. */
  double evaluate(const std::string& split, size_t n_batches) {
    evaluate_begin(split, n_batches);
    while (evaluate_next()) {
      if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    }
    return metric("loss");
  }

  void generate_begin(const py::object& prompt, double temperature, size_t top_k, double top_p,
                      uint32_t seed) {
    const Ids ids = ids_of("prompt", prompt, 1);
    const auto count = static_cast<size_t>(ids.size());
    run([&](tabgpt_session* s) {
      return tabgpt_generate_begin(s, ids.data(), count, temperature, top_k, top_p, seed);
    });
  }

  int32_t generate_next() {
    return run([](tabgpt_session* s) { return tabgpt_generate_next(s); });
  }

 private:
  std::unique_lock<std::mutex> own() {
    std::unique_lock<std::mutex> lock(busy_, std::try_to_lock);
    if (!lock)
      throw CoreError("the session is in use by another thread; wait for it, or open a second session");
    return lock;
  }

  tabgpt_session* open() {
    if (handle_ == nullptr) throw CoreError("the session is closed; open a new one");
    return handle_.get();
  }

  /** f(session) without the GIL, by one thread at a time. */
  template <typename F>
  int run(F f) {
    const auto lock = own();
    tabgpt_session* s = open();
    int status;
    {
      py::gil_scoped_release release;
      status = f(s);
    }
    check(status);
    return status;
  }

  template <typename F>
  double pass(F f, const py::object& tokens, const py::object& targets, bool train, size_t step,
              size_t micro) {
    const Ids x = ids_of("tokens", tokens, 2), y = ids_of("targets", targets, 2);
    check_same_shape(x, y);
    run([&](tabgpt_session* s) {
      return f(s, x.data(), y.data(), static_cast<size_t>(x.shape(0)), static_cast<size_t>(x.shape(1)), train,
               step, micro);
    });
    return metric("loss");
  }

  Handle handle_;
  size_t vocab_size_ = 0;
  std::mutex busy_;
};

/** One kernel on the caller's arrays, written in place: 4-byte elements, C-contiguous, u32 ids as they are.
 */
void op(const std::string& name, const std::vector<double>& params,
        const std::vector<std::optional<py::array>>& tensors, size_t threads) {
  std::vector<float*> pointers;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i]) {
      pointers.push_back(nullptr);
      continue;
    }
    const py::array& array = *tensors[i];
    const bool contiguous = (array.flags() & py::array::c_style) != 0;
    if (array.itemsize() != 4 || !contiguous || !array.writeable()) {
      throw CoreError("tensor " + std::to_string(i) + " of op " + name +
                      " must be a writable C-contiguous float32 or uint32 array");
    }
    pointers.push_back(static_cast<float*>(const_cast<void*>(array.data())));
  }
  int status;
  {
    py::gil_scoped_release release;
    status = tabgpt_op(name.c_str(), params.data(), params.size(), pointers.data(), pointers.size(), threads);
  }
  check(status);
}

std::vector<std::string> fields() {
  std::vector<std::string> names;
  for (size_t i = 0; i < tabgpt_config_field_count(); ++i) names.emplace_back(tabgpt_config_field_name(i));
  return names;
}

}  // namespace

PYBIND11_MODULE(_core, m) {
  m.doc() = "The C++ core of tabgpt: float32, one source with the WebAssembly builds.";
  py::register_exception<CoreError>(m, "TabgptError");

  m.def("version", &tabgpt_version);
  m.def("isa", &tabgpt_isa, "The kernels in use, e.g. \"avx2\".");
  m.def("has_threads", [] { return tabgpt_has_threads() != 0; });
  m.def("fields", &fields, "Names of the config's fields.");
  m.def("memory", &memory, py::arg("config"), py::arg("mode"), py::arg("threads"), py::arg("n_tokens") = 0,
        "Bytes by role, and \"total\", that a session will hold.");
  m.def("op", &op, py::arg("name"), py::arg("params"), py::arg("tensors"), py::arg("threads") = 1,
        "Runs one kernel on the arrays, in place; cpp/src/ops.cpp lists them.");

  py::class_<Config>(m, "Config", "Every hyper-parameter the core needs, checked.")
      .def(py::init<const py::dict&>(), py::arg("fields"))
      .def_property_readonly("n_parameters", &Config::n_parameters)
      .def("learning_rate", &Config::learning_rate, py::arg("step"));

  bind_gpu(m);
  bind_gpu_op(m);

  py::class_<Session>(m, "Session", "A model in memory; one thread at a time may call it.")
      .def(py::init<const Config&, const std::string&, size_t>(), py::arg("config"), py::arg("mode"),
           py::arg("threads"))
      .def("close", &Session::close)
      .def_property_readonly("threads", &Session::threads)
      .def("thread_tiles", &Session::thread_tiles, py::arg("thread"))
      .def("init_weights", &Session::init_weights)
      .def("set_tokens", &Session::set_tokens, py::arg("tokens"))
      .def("names", &Session::names)
      .def("tensor", &Session::tensor, py::arg("name"))
      .def_property("step_number", &Session::step_number, &Session::set_step_number)
      .def("step", &Session::step)
      .def("metric", &Session::metric, py::arg("name"))
      .def("loss", &Session::loss, py::arg("tokens"), py::arg("targets"), py::arg("train") = false,
           py::arg("step") = 0, py::arg("micro") = 0)
      .def("loss_and_grads", &Session::loss_and_grads, py::arg("tokens"), py::arg("targets"),
           py::arg("train") = false, py::arg("step") = 0, py::arg("micro") = 0)
      .def("logits", &Session::logits, py::arg("tokens"))
      .def("evaluate_begin", &Session::evaluate_begin, py::arg("split"), py::arg("n_batches") = 0)
      .def("evaluate_next", &Session::evaluate_next)
      .def("evaluate", &Session::evaluate, py::arg("split"), py::arg("n_batches") = 0)
      .def("generate_begin", &Session::generate_begin, py::arg("prompt"), py::arg("temperature") = 1.0,
           py::arg("top_k") = 0, py::arg("top_p") = 1.0, py::arg("seed") = 0)
      .def("generate_next", &Session::generate_next);
}
