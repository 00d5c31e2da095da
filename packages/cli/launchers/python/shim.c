/*
 * The short way of a launch from Python: addresses that have changed go into the parameters and tensor maps that _plans.py has made, and the driver is
 * called, without an interpreted line between. _shim.py compiles it, once a machine; without it Python does the same.
 *
 * Launch: shim_launch.h.
 * Table: launches of one thread by what their tensors are, which torch's DLPack exchange API says (DLPack 1.3).
 * Operation: what users call; a function of Python answers what the thread's table does not.
 */
#define PY_SSIZE_T_CLEAN
#define _GNU_SOURCE
#include <Python.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { MOST_INPUTS = 16, MOST_WORDS = 192, BUCKETS = 256, MOST_OPERATIONS = 256 };

#include "shim_launch.h"

/* ---- Table */

/* As DLPack 1.3 has them. */
typedef struct {
  void *data;
  int32_t device_type, device_id, rank;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t offset;
} Tensor;
typedef struct {
  uint32_t major, minor;
  void *previous;
  void *allocate, *from_object, *to_object;
  int (*view)(void *object, Tensor *out);
  int (*stream)(int32_t device_type, int32_t device_id, void **out);
} Exchange;
enum { DL_CUDA = 2 };

/* How torch's stable C functions say the same, by what they call a handle: the at::Tensor in a tensor's object. The latter lies behind the object's head, and
 * `place` is 0 in a torch that keeps it elsewhere or lacks a function. */
typedef struct {
  uint64_t place, strided, cuda; /* bytes; torch's numbers of the layout and of the kind of device */
  int (*layout)(void *, int32_t *), (*device_type)(void *, int32_t *), (*device)(void *, int32_t *), (*dtype)(void *, int32_t *);
  int (*rank)(void *, int64_t *), (*shape)(void *, int64_t **), (*strides)(void *, int64_t **), (*data)(void *, void **);
} Reader;
enum { READER_WORDS = sizeof(Reader) / sizeof(uint64_t) };

typedef struct Entry {
  struct Entry *next;
  int words;
  Launch *launch;
  void *context;
  PyObject *run, *out; /* out: arguments of what makes the output */
  int32_t device;
  int64_t word[];
} Entry;

/* Where torch keeps the flags of a thread, by functions and symbols of its libraries; all 0 in a torch that lacks one. */
typedef struct {
  void *library; /* of the symbol `keys` */
  bool (*function_modes)(void);
  bool (*grad)(void);
} Flags;

typedef struct {
  PyObject_HEAD
  const Exchange *exchange;
  int (*current)(void **context);
  PyObject *types, *guards, *grad, *empty;
  PyCFunction make; /* `empty`, where it is a function in C of a tuple of arguments, and its self */
  PyObject *maker;
  Flags flags;
  Reader reader;
  uint64_t clear[2]; /* dispatch keys with which all guards were false */
  Entry *latest, *bucket[BUCKETS];
  int operation;
} Table;

typedef struct {
  PyObject_HEAD
  vectorcallfunc call;
  PyObject *dict, *otherwise;
  int number;
} Operation;

static PyTypeObject OperationType;
/* Tables of this thread by their operation, which Python's thread owns. */
static __thread Table *tables[MOST_OPERATIONS];
/* The dispatch keys that this thread includes and excludes (c10::impl::raw_local_dispatch_key_set). */
static __thread const uint64_t *included;
static PyObject *requires_grad;

/* What a tensor is. Whether that could be read. */
static bool view(const Table *self, PyObject *object, Tensor *out) {
  const Reader *read = &self->reader;
  void *handle = (char *)object + read->place;
  int32_t layout, type, dtype;
  int64_t rank;
  if (read->place == 0) {
    if (self->exchange->view(object, out) == 0) return true;
    PyErr_Clear();
    return false;
  }
  /* Each says on stderr what it refuses, so the layout comes first. */
  if (read->layout(handle, &layout) != 0 || layout != (int32_t)read->strided || read->device_type(handle, &type) != 0 || type != (int32_t)read->cuda) return false;
  if (read->device(handle, &out->device_id) != 0 || read->dtype(handle, &dtype) != 0 || read->rank(handle, &rank) != 0) return false;
  if (read->shape(handle, &out->shape) != 0 || read->strides(handle, &out->strides) != 0 || read->data(handle, &out->data) != 0) return false;
  out->device_type = DL_CUDA;
  out->code = (uint8_t)dtype;
  out->rank = (int32_t)rank;
  return true;
}

/* What decides how a launch is made, as words, and the addresses. How many words; 0 where a tensor is none for a launch from here. */
static int facts(const Table *self, PyObject *const *tensors, Py_ssize_t count, int64_t *word, uint64_t *pointers, int32_t *device) {
  Py_ssize_t i;
  int at = 0, d;
  for (i = 0; i < count; i++) {
    Tensor tensor = {0};
    if (!view(self, tensors[i], &tensor)) return 0;
    if (tensor.device_type != DL_CUDA || tensor.strides == NULL || at + 2 + 2 * tensor.rank > MOST_WORDS) return 0;
    *device = tensor.device_id;
    word[at++] = (int64_t)((uint64_t)tensor.code | (uint64_t)tensor.bits << 8 | (uint64_t)tensor.lanes << 16 | (uint64_t)(uint32_t)tensor.rank << 32);
    word[at++] = tensor.device_id;
    for (d = 0; d < tensor.rank; d++) word[at++] = tensor.shape[d];
    for (d = 0; d < tensor.rank; d++) word[at++] = tensor.strides[d];
    pointers[i] = (uint64_t)(uintptr_t)tensor.data + tensor.offset;
  }
  return at;
}

/* FNV-1a by words. */
static uint64_t hash_of(const int64_t *word, int words) {
  uint64_t hash = 14695981039346656037u;
  int i;
  for (i = 0; i < words; i++) hash = (hash ^ (uint64_t)word[i]) * 1099511628211u;
  return hash ^ hash >> 29;
}

static int is_of(const Entry *entry, const int64_t *word, int words) {
  return entry->words == words && memcmp(entry->word, word, sizeof *word * (size_t)words) == 0;
}

static Entry *find(Table *self, const int64_t *word, int words) {
  Entry *entry = self->latest;
  if (entry && is_of(entry, word, words)) return entry;
  entry = self->bucket[hash_of(word, words) % BUCKETS];
  while (entry && !is_of(entry, word, words)) entry = entry->next;
  if (entry) self->latest = entry;
  return entry;
}

static void free_entries(Table *self) {
  int i;
  self->latest = NULL;
  for (i = 0; i < BUCKETS; i++)
    while (self->bucket[i]) {
      Entry *entry = self->bucket[i];
      self->bucket[i] = entry->next;
      Py_XDECREF(entry->launch);
      Py_XDECREF(entry->run);
      Py_XDECREF(entry->out);
      PyMem_Free(entry);
    }
}

static void free_table(Table *self) {
  if (tables[self->operation] == self) tables[self->operation] = NULL;
  free_entries(self);
  Py_XDECREF(self->types);
  Py_XDECREF(self->guards);
  Py_XDECREF(self->grad);
  Py_XDECREF(self->empty);
  Py_TYPE(self)->tp_free((PyObject *)self);
}

/* Table(operation, exchange, current, types, guards, grad, empty, flags, reader): the Operation that it answers for, in this thread; torch's exchange capsule; address of
 * cuCtxGetCurrent; types of tensors, exactly; functions that are false where a call is plain; whether gradients are recorded; what makes an output of shape,
 * strides, dtype; Flags and Reader as addresses and numbers. ValueError: an exchange API of another version. */
static PyObject *new_table(PyTypeObject *type, PyObject *args, PyObject *options) {
  PyObject *operation, *capsule, *types, *guards, *grad, *empty;
  unsigned long long current, library, modes, recording;
  uint64_t read[READER_WORDS];
  PyObject *reader;
  const Exchange *exchange;
  Table *self;
  if (options && PyDict_GET_SIZE(options) > 0) return PyErr_SetString(PyExc_TypeError, "no keywords"), NULL;
  if (!PyArg_ParseTuple(args, "O!OKO!O!OO(KKK)O", &OperationType, &operation, &capsule, &current, &PyTuple_Type, &types, &PyTuple_Type, &guards, &grad, &empty,
                        &library, &modes, &recording, &reader) ||
      !numbers(reader, read, READER_WORDS))
    return NULL;
  exchange = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
  if (!exchange) return NULL;
  if (exchange->major != 1 || !exchange->view || !exchange->stream) return PyErr_SetString(PyExc_ValueError, "another exchange API"), NULL;
  self = (Table *)type->tp_alloc(type, 0);
  if (!self) return NULL;
  self->exchange = exchange;
  self->current = (int (*)(void **))(uintptr_t)current;
  self->types = Py_NewRef(types);
  self->guards = Py_NewRef(guards);
  self->grad = Py_NewRef(grad);
  self->empty = Py_NewRef(empty);
  if (library != 0 && modes != 0 && recording != 0)
    self->flags = (Flags){(void *)(uintptr_t)library, (bool (*)(void))(uintptr_t)modes, (bool (*)(void))(uintptr_t)recording};
  memcpy(&self->reader, read, sizeof self->reader);
  if (PyCFunction_CheckExact(empty) && (PyCFunction_GET_FLAGS(empty) & ~METH_STATIC) == METH_VARARGS) {
    self->make = PyCFunction_GET_FUNCTION(empty);
    self->maker = PyCFunction_GET_SELF(empty);
  }
  memset(self->clear, 0xff, sizeof self->clear); /* no such keys */
  self->operation = ((Operation *)operation)->number;
  tables[self->operation] = self;
  return (PyObject *)self;
}

/* add(tensors, launch, run, out): a launch of these tensors' kind on the current context, with one output, whose shape, strides and dtype are out.
 * run(pointers, stream) is the long way. Whether it was taken. */
static PyObject *add(Table *self, PyObject *args) {
  PyObject *tensors, *run, *out;
  int64_t word[MOST_WORDS];
  uint64_t pointers[MOST_POINTERS];
  void *context = NULL;
  Launch *launch;
  Entry *entry, **bucket;
  int words;
  int32_t device = 0;
  if (!PyArg_ParseTuple(args, "O!O!OO!", &PyTuple_Type, &tensors, &LaunchType, &launch, &run, &PyTuple_Type, &out)) return NULL;
  if (PyTuple_GET_SIZE(tensors) > MOST_INPUTS || launch->pointers != PyTuple_GET_SIZE(tensors) + 2) Py_RETURN_FALSE;
  words = facts(self, &PyTuple_GET_ITEM(tensors, 0), PyTuple_GET_SIZE(tensors), word, pointers, &device);
  if (words == 0 || self->current(&context) != 0 || !context) Py_RETURN_FALSE;
  entry = PyMem_Calloc(1, sizeof *entry + sizeof *word * (size_t)words);
  if (!entry) return PyErr_NoMemory();
  entry->words = words;
  memcpy(entry->word, word, sizeof *word * (size_t)words);
  entry->launch = (Launch *)Py_NewRef((PyObject *)launch);
  entry->context = context;
  entry->device = device;
  entry->run = Py_NewRef(run);
  entry->out = Py_NewRef(out);
  bucket = &self->bucket[hash_of(word, words) % BUCKETS];
  entry->next = *bucket;
  *bucket = entry;
  Py_RETURN_TRUE;
}

static PyObject *clear(Table *self, PyObject *unused) {
  (void)unused;
  free_entries(self);
  Py_RETURN_NONE;
}

/* 1 true, 0 false, -1 with an exception set. */
static int truth(PyObject *made) {
  int value = made ? PyObject_IsTrue(made) : -1;
  Py_XDECREF(made);
  return value;
}

/* Whether no mode, transform or autocast is active in this thread: 1, 0, or -1 with an exception set. */
static int outside(Table *self) {
  const uint64_t *keys = NULL;
  Py_ssize_t i;
  int answer;
  if (self->flags.library) {
    if (!included) included = dlsym(self->flags.library, "_ZN3c104impl26raw_local_dispatch_key_setE");
    keys = included;
  }
  /* Each but modes of functions shows in the keys. */
  if (keys && keys[0] == self->clear[0] && keys[1] == self->clear[1] && !self->flags.function_modes()) return 1;
  for (i = 0; i < PyTuple_GET_SIZE(self->guards); i++)
    if ((answer = truth(PyObject_CallNoArgs(PyTuple_GET_ITEM(self->guards, i)))) != 0) return answer < 0 ? -1 : 0;
  if (keys) memcpy(self->clear, keys, sizeof self->clear);
  return 1;
}

/* Whether these are tensors themselves, outside of modes and transforms, and without gradients to record; -1 with an exception set. */
static int plain(Table *self, PyObject *const *tensors, Py_ssize_t count) {
  Py_ssize_t i, t;
  int answer;
  for (i = 0; i < count; i++) {
    PyObject *type = (PyObject *)Py_TYPE(tensors[i]);
    for (t = 0; t < PyTuple_GET_SIZE(self->types) && PyTuple_GET_ITEM(self->types, t) != type; t++) continue;
    if (t == PyTuple_GET_SIZE(self->types)) return 0;
  }
  if ((answer = outside(self)) <= 0) return answer;
  answer = self->flags.grad ? self->flags.grad() : truth(PyObject_CallNoArgs(self->grad));
  if (answer <= 0) return answer < 0 ? -1 : 1;
  for (i = 0; i < count; i++)
    if ((answer = truth(PyObject_GetAttr(tensors[i], requires_grad))) != 0) return answer < 0 ? -1 : 0;
  return 1;
}

/* The output; NULL without an exception where the call is none of those that were added, and nothing was done. */
static PyObject *quick(Table *self, PyObject *const *tensors, Py_ssize_t inputs) {
  int64_t word[MOST_WORDS];
  uint64_t pointers[MOST_POINTERS];
  void *context = NULL, *stream = NULL;
  PyObject *made, *told, *given;
  Tensor out = {0};
  Entry *entry;
  int words, status;
  int32_t device = 0;
  if (inputs > MOST_INPUTS || plain(self, tensors, inputs) <= 0) return NULL;
  words = facts(self, tensors, inputs, word, pointers, &device);
  entry = words == 0 ? NULL : find(self, word, words);
  if (!entry || self->current(&context) != 0 || context != entry->context) return NULL;
  if (self->exchange->stream(DL_CUDA, device, &stream) != 0) return PyErr_Clear(), NULL;
  made = self->make ? self->make(self->maker, entry->out) : PyObject_Call(self->empty, entry->out, NULL);
  if (!made) return NULL;
  if (!view(self, made, &out)) return Py_DECREF(made), NULL;
  pointers[inputs] = (uint64_t)(uintptr_t)out.data + out.offset;
  pointers[inputs + 1] = 0; /* the workspace, of which there is none */
  status = queue(entry->launch, pointers, (uint64_t)(uintptr_t)stream);
  if (status == QUEUED) return made;
  /* The long way says what is wrong, or encodes maps. */
  given = PyTuple_New(entry->launch->pointers);
  for (words = 0; given && words < entry->launch->pointers; words++) PyTuple_SET_ITEM(given, words, PyLong_FromUnsignedLongLong(pointers[words]));
  told = given ? PyObject_CallFunction(entry->run, "OK", given, (unsigned long long)(uintptr_t)stream) : NULL;
  Py_XDECREF(given);
  if (!told) return Py_DECREF(made), NULL;
  Py_DECREF(told);
  return made;
}

static PyMethodDef table_methods[] = {
    {"add", (PyCFunction)add, METH_VARARGS, NULL}, {"clear", (PyCFunction)clear, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};
static PyTypeObject TableType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "shim.Table",
    .tp_basicsize = sizeof(Table),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = new_table,
    .tp_dealloc = (destructor)free_table,
    .tp_methods = table_methods,
};

/* ---- Operation */

static PyObject *call_operation(Operation *self, PyObject *const *args, size_t count, PyObject *names) {
  Table *table = tables[self->number];
  if (table && !names) {
    PyObject *made = quick(table, args, PyVectorcall_NARGS(count));
    if (made || PyErr_Occurred()) return made;
  }
  return PyObject_Vectorcall(self->otherwise, args, count, names);
}

/* Operation(otherwise): what a thread without a table calls. It has attributes. */
static PyObject *new_operation(PyTypeObject *type, PyObject *args, PyObject *options) {
  static int count;
  PyObject *otherwise;
  Operation *self;
  if (options && PyDict_GET_SIZE(options) > 0) return PyErr_SetString(PyExc_TypeError, "no keywords"), NULL;
  if (!PyArg_ParseTuple(args, "O", &otherwise)) return NULL;
  if (count >= MOST_OPERATIONS) return PyErr_SetString(PyExc_ValueError, "too many operations"), NULL;
  self = (Operation *)type->tp_alloc(type, 0);
  if (!self) return NULL;
  self->call = (vectorcallfunc)call_operation;
  self->otherwise = Py_NewRef(otherwise);
  self->number = count++;
  return (PyObject *)self;
}

static int visit_operation(Operation *self, visitproc visit, void *arg) {
  Py_VISIT(self->dict);
  Py_VISIT(self->otherwise);
  return 0;
}
static int clear_operation(Operation *self) {
  Py_CLEAR(self->dict);
  Py_CLEAR(self->otherwise);
  return 0;
}
static void free_operation(Operation *self) {
  PyObject_GC_UnTrack(self);
  clear_operation(self);
  Py_TYPE(self)->tp_free((PyObject *)self);
}

/* By its name, as functions are copied and pickled. */
static PyObject *reduce_operation(PyObject *self, PyObject *unused) {
  (void)unused;
  return PyObject_GetAttrString(self, "__name__");
}

static PyMethodDef operation_methods[] = {{"__reduce__", reduce_operation, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};
static PyGetSetDef operation_members[] = {{"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL}, {NULL, NULL, NULL, NULL, NULL}};
static PyTypeObject OperationType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "shim.Operation",
    .tp_basicsize = sizeof(Operation),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(Operation, call),
    .tp_dictoffset = offsetof(Operation, dict),
    .tp_call = PyVectorcall_Call,
    .tp_new = new_operation,
    .tp_dealloc = (destructor)free_operation,
    .tp_traverse = (traverseproc)visit_operation,
    .tp_clear = (inquiry)clear_operation,
    .tp_methods = operation_methods,
    .tp_getset = operation_members,
};

/* traced_as(function): what compilers of Python see as Operation.__call__; calls do not go through it. */
static PyObject *traced_as(PyObject *unused, PyObject *function) {
  (void)unused;
  if (PyDict_SetItemString(OperationType.tp_dict, "__call__", function) != 0) return NULL;
  PyType_Modified(&OperationType);
  Py_RETURN_NONE;
}

static PyMethodDef functions[] = {{"traced_as", traced_as, METH_O, NULL}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "shim", NULL, -1, functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_shim(void) {
  PyObject *made;
  if (PyType_Ready(&LaunchType) < 0 || PyType_Ready(&TableType) < 0 || PyType_Ready(&OperationType) < 0) return NULL;
  requires_grad = PyUnicode_InternFromString("requires_grad");
  made = requires_grad ? PyModule_Create(&module) : NULL;
  if (made && PyModule_AddObject(made, "Launch", Py_NewRef((PyObject *)&LaunchType)) == 0 &&
      PyModule_AddObject(made, "Table", Py_NewRef((PyObject *)&TableType)) == 0 && PyModule_AddObject(made, "Operation", Py_NewRef((PyObject *)&OperationType)) == 0)
    return made;
  Py_XDECREF(made);
  return NULL;
}
