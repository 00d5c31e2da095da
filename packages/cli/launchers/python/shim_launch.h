/* Launch(launch, replace, pointers, cells, maps, starts): one Plan of _plans.py, by the addresses of its memory, which the Plan owns. Part of shim.c. */
#include <Python.h>
#include <stdint.h>
#include <string.h>

enum { MOST_POINTERS = 24, MAP_ALIGN = 16 };

typedef int (*LaunchKernel)(const void *config, void *function, void **params, void **extra);
typedef int (*ReplaceAddress)(void *map, void *address);

typedef struct {
  int pointer;
  uint32_t align;
  uint64_t *cell;
} Cell;
typedef struct {
  int pointer;
  void *place;
  uint64_t at; /* bytes from there to what the map is over */
} Map;
typedef struct {
  const void *config;
  void *function;
  void **params, **stream;
} Start;

typedef struct {
  PyObject_HEAD
  LaunchKernel launch;
  ReplaceAddress replace;
  int pointers, cells, maps, starts, workspace, known;
  uint64_t last[MOST_POINTERS];
  Cell *cell;
  Map *map;
  Start *start;
} Launch;

enum { QUEUED = 0, NOT_MINE = -1 };

/* QUEUED, an error of the driver, or NOT_MINE where _plans.py has to say what is wrong, or to encode maps first. */
static int queue(Launch *self, const uint64_t *pointers, uint64_t stream) {
  int i, status = 0;
  if (!self->known) return NOT_MINE;
  if (memcmp(pointers, self->last, sizeof *pointers * (size_t)self->pointers) != 0) {
    for (i = 0; i < self->cells; i++) {
      uint64_t address = pointers[self->cell[i].pointer];
      if ((address == 0 && self->cell[i].pointer != self->workspace) || address % self->cell[i].align != 0) return NOT_MINE;
    }
    for (i = 0; i < self->maps; i++) {
      uint64_t address = pointers[self->map[i].pointer];
      if (address == 0 || address % MAP_ALIGN != 0) return NOT_MINE;
    }
    /* Half written is not known: the next launch encodes anew. */
    self->known = 0;
    for (i = 0; i < self->cells; i++) *self->cell[i].cell = pointers[self->cell[i].pointer];
    for (i = 0; i < self->maps; i++) {
      int at = self->map[i].pointer;
      if (pointers[at] == self->last[at]) continue;
      status = self->replace(self->map[i].place, (void *)(uintptr_t)(pointers[at] + self->map[i].at));
      if (status != 0) return status;
    }
    memcpy(self->last, pointers, sizeof *pointers * (size_t)self->pointers);
    self->known = 1;
  }
  /* A full queue waits for the GPU, and that perhaps for another thread of Python. */
  Py_BEGIN_ALLOW_THREADS
  for (i = 0; i < self->starts && status == 0; i++) {
    *self->start[i].stream = (void *)(uintptr_t)stream;
    status = self->launch(self->start[i].config, self->start[i].function, self->start[i].params, NULL);
  }
  Py_END_ALLOW_THREADS
  return status;
}

/* Numbers of a tuple of ints into words; 0 with an exception set where it is none, or too long. */
static int numbers(PyObject *tuple, uint64_t *words, Py_ssize_t count) {
  Py_ssize_t i;
  if (!PyTuple_Check(tuple) || PyTuple_GET_SIZE(tuple) != count) {
    PyErr_Format(PyExc_TypeError, "a tuple of %zd integers is wanted", count);
    return 0;
  }
  for (i = 0; i < count; i++) {
    words[i] = PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(tuple, i));
    if (words[i] == (uint64_t)-1 && PyErr_Occurred()) return 0;
  }
  return 1;
}

/* Rows of `width` integers from a list of tuples; NULL with an exception set. */
static uint64_t *rows(PyObject *list, Py_ssize_t width, int *count) {
  Py_ssize_t i, size = PyList_Check(list) ? PyList_GET_SIZE(list) : -1;
  uint64_t *words;
  if (size < 0) return PyErr_SetString(PyExc_TypeError, "a list is wanted"), NULL;
  words = PyMem_Calloc((size_t)(size * width + 1), sizeof *words);
  if (!words) return (uint64_t *)PyErr_NoMemory();
  for (i = 0; i < size; i++)
    if (!numbers(PyList_GET_ITEM(list, i), words + i * width, width)) return PyMem_Free(words), NULL;
  *count = (int)size;
  return words;
}

static void free_launch(Launch *self) {
  PyMem_Free(self->cell);
  PyMem_Free(self->map);
  PyMem_Free(self->start);
  Py_TYPE(self)->tp_free((PyObject *)self);
}

/* Launch(launch, replace, pointers, cells, maps, starts): addresses of the driver's functions; how many pointers a launch has, the workspace the last of them;
 * (pointer, address, alignment) of cells, (pointer, address, bytes on) of maps, (config, its stream's place, function, parameters) of kernels. */
static PyObject *new_launch(PyTypeObject *type, PyObject *args, PyObject *options) {
  unsigned long long launch, replace;
  PyObject *cells, *maps, *starts;
  uint64_t *cell = NULL, *map = NULL, *start = NULL;
  Launch *self;
  int i, pointers;
  if (options && PyDict_GET_SIZE(options) > 0) return PyErr_SetString(PyExc_TypeError, "no keywords"), NULL;
  if (!PyArg_ParseTuple(args, "KKiOOO", &launch, &replace, &pointers, &cells, &maps, &starts)) return NULL;
  if (pointers < 1 || pointers > MOST_POINTERS) return PyErr_SetString(PyExc_ValueError, "too many pointers"), NULL;
  self = (Launch *)type->tp_alloc(type, 0);
  if (!self) return NULL;
  self->launch = (LaunchKernel)(uintptr_t)launch;
  self->replace = (ReplaceAddress)(uintptr_t)replace;
  self->pointers = pointers;
  self->workspace = pointers - 1;
  cell = rows(cells, 3, &self->cells);
  map = cell ? rows(maps, 3, &self->maps) : NULL;
  start = map ? rows(starts, 4, &self->starts) : NULL;
  if (start) {
    self->cell = PyMem_Calloc((size_t)self->cells + 1, sizeof *self->cell);
    self->map = PyMem_Calloc((size_t)self->maps + 1, sizeof *self->map);
    self->start = PyMem_Calloc((size_t)self->starts + 1, sizeof *self->start);
    if (!self->cell || !self->map || !self->start) PyErr_NoMemory();
  }
  for (i = 0; !PyErr_Occurred() && i < self->cells; i++) {
    self->cell[i] = (Cell){(int)cell[i * 3], (uint32_t)cell[i * 3 + 2], (uint64_t *)(uintptr_t)cell[i * 3 + 1]};
    if (cell[i * 3] >= (uint64_t)pointers || cell[i * 3 + 2] == 0) PyErr_SetString(PyExc_ValueError, "no such pointer");
  }
  for (i = 0; !PyErr_Occurred() && i < self->maps; i++) {
    self->map[i] = (Map){(int)map[i * 3], (void *)(uintptr_t)map[i * 3 + 1], map[i * 3 + 2]};
    if (map[i * 3] >= (uint64_t)pointers) PyErr_SetString(PyExc_ValueError, "no such pointer");
  }
  for (i = 0; !PyErr_Occurred() && i < self->starts; i++)
    self->start[i] = (Start){(const void *)(uintptr_t)start[i * 4], (void *)(uintptr_t)start[i * 4 + 2], (void **)(uintptr_t)start[i * 4 + 3],
                             (void **)(uintptr_t)start[i * 4 + 1]};
  PyMem_Free(cell);
  PyMem_Free(map);
  PyMem_Free(start);
  if (!PyErr_Occurred()) return (PyObject *)self;
  Py_DECREF(self);
  return NULL;
}

/* run(pointers, stream): 0, the driver's error, or -1 where nothing was done. */
static PyObject *run_launch(Launch *self, PyObject *const *args, Py_ssize_t count) {
  uint64_t pointers[MOST_POINTERS], stream;
  if (count != 2) return PyErr_SetString(PyExc_TypeError, "run(pointers, stream)"), NULL;
  if (!numbers(args[0], pointers, self->pointers)) return NULL;
  stream = PyLong_AsUnsignedLongLong(args[1]);
  if (stream == (uint64_t)-1 && PyErr_Occurred()) return NULL;
  return PyLong_FromLong(queue(self, pointers, stream));
}

/* know(pointers): what _plans.py has written. */
static PyObject *know_launch(Launch *self, PyObject *pointers) {
  self->known = 0;
  if (!numbers(pointers, self->last, self->pointers)) return NULL;
  self->known = 1;
  Py_RETURN_NONE;
}

static PyMethodDef launch_methods[] = {
    {"run", (PyCFunction)(void (*)(void))run_launch, METH_FASTCALL, NULL}, {"know", (PyCFunction)know_launch, METH_O, NULL}, {NULL, NULL, 0, NULL}};
static PyTypeObject LaunchType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "shim.Launch",
    .tp_basicsize = sizeof(Launch),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = new_launch,
    .tp_dealloc = (destructor)free_launch,
    .tp_methods = launch_methods,
};
