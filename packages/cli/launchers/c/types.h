/* Part of launcher.h: what hosts and tables name. */
/* Address in device memory: a CUdeviceptr. */
typedef uint64_t LIB_pointer;
/* A CUstream; 0 is the default stream. */
typedef void *LIB_stream;

/* What functions return: 0, one of these, or a CUresult, which is positive. LIB_last_error says more. */
enum {
  LIB_OK = 0,
  LIB_NO_KERNEL = -1,    /* no kernel of the library serves these arguments on this GPU */
  LIB_BAD_ARGUMENT = -2, /* an operand is missing, not what the kernels take, or not aligned; or the workspace is too small */
  LIB_NO_FILE = -3,      /* an image cannot be read */
  LIB_NO_DRIVER = -4     /* no libcuda, or one without a function that is needed */
};

/* Types of elements; 0 is not known. */
enum { LIB_F16 = 1, LIB_BF16, LIB_F32, LIB_F64, LIB_S8, LIB_U8, LIB_S32, LIB_E4M3, LIB_E5M2 };

/* Device memory with what is known of it, as DLPack has it. Strides are in elements; of a batch the first dimension counts matrices. */
typedef struct LIB_tensor {
  LIB_pointer data;
  int dtype, device; /* a LIB_F16 ..., the GPU's number or -1 where it is not known */
  int rank;
  int64_t shape[4], stride[4];
} LIB_tensor;

/* Shape and strides of a tensor, in elements. */
typedef struct LIB_extents {
  int64_t rank, shape[4], stride[4];
} LIB_extents;

/* Arguments of every operation: set them with LIB_OPERATION_defaults, then change what differs. */
typedef struct LIB_args {
  int64_t m, n, k, batch;
  int64_t lda, ldb, ldc, ldd;                   /* elements */
  int64_t strideA, strideB, strideC, strideD;   /* elements between matrices of a batch */
  LIB_extents tensor[LIB_TENSORS];              /* of attention's operands, as LIB_OPERATION_take was told; of rank 0 they are a kernel's own */
  LIB_pointer a, b, c, d;
  LIB_pointer sfa, sfb;                         /* scale factors; of packed weights sfb */
  LIB_pointer groups;                           /* of experts: an int32 each, where its rows end, or how many there are */
  LIB_pointer epilogue[LIB_STEPS];              /* what step i of the epilogue reads or writes */
  double alpha, beta;
  double scale[LIB_STEPS];                      /* the number of step i, where it takes one */
  /* Optional. Without it every launch allocates on its stream. Zero it before its first use, and when another operation or other sizes
     come to use it; one launch at a time may do so. */
  LIB_pointer workspace;
  uint64_t workspace_bytes;
} LIB_args;

/* Bytes of the widest parameter, a CUtensorMap, which the driver wants aligned to 64. */
#define LIB_PARAM_BYTES 128
/* Launches that a library keeps ready, by operation, sizes and numbers: of one that comes back only addresses are written. */
#define LIB_KEPT 32
/* What a launch may take without opting in (CUDA programming guide, technical specifications). */
#define LIB_PLAIN_SMEM (48 * 1024)
#define LIB_PORTABLE_CLUSTER 8
/* Bytes that an address of a tensor map is aligned to (cuTensorMapEncodeTiled). */
#define LIB_MAP_ALIGN 16

/* What an operation takes in one place. Extents are 'm', 'n', 'k', or 0; what has an order of its own has the inner one '*' and n times the outer one, divided by
   ld, elements; 'M' is m rounded up to 128, 'G' m and 127 for each expert, 'K' 2 k, 'E' experts, as many as batch says. Members of LIB_args go by their offsets, 0 for none. */
typedef struct LIB_operand {
  const char *name, *label;
  int dtype;
  char outer, inner; /* of a matrix as it lies in memory; a vector has an inner one only */
  int column_major;
  int shared; /* one for all of a batch */
  int64_t ld; /* of a matrix of the epilogue, which has no argument for it: a number, or 0 where it is packed */
  int64_t rows; /* that an index names, in place of the outer extent, or 0 */
  size_t pointer, ld_at, stride_at;
  const char *axes; /* of attention's: "batch, heads, queries, head dim"; its kernels know the extents */
} LIB_operand;

typedef struct LIB_operation {
  const char *name;
  const int *artefacts; /* in the order in which they are tried */
  int artefact_count;
  const LIB_operand *operands;
  int operand_count;
} LIB_operation;

typedef struct LIB_kernel {
  const char *entry;
  uint32_t block[3], cluster[3], dynamic_smem;
  int cooperative;
} LIB_kernel;

typedef struct LIB_launch {
  uint32_t grid[3];
  int params, workspace_param;
  unsigned char (*param)[LIB_PARAM_BYTES]; /* aligned to 64 */
} LIB_launch;

/* A parameter that holds an address, or a tensor map over one. */
typedef struct LIB_patch {
  unsigned char *place;
  const char *name;
  size_t pointer; /* of its address in LIB_args */
  uint64_t align, at; /* at: bytes from there to what a map is over */
  int map;
} LIB_patch;

/* One launch of an artefact: all its kernels. zero: 0 the workspace may hold anything, 1 zero at first, 2 zero before every launch. */
typedef struct LIB_plan {
  const LIB_operation *operation; /* 0 while it is being made */
  LIB_args args;                  /* whose numbers it was made for, and whose addresses it holds */
  int artefact, zero, launches, patches;
  int64_t workspace;
  LIB_launch launch[LIB_KERNELS];
  LIB_patch patch[LIB_KERNELS * LIB_PARAMS];
  unsigned char memory[LIB_KERNELS * LIB_PARAMS * LIB_PARAM_BYTES + 64];
} LIB_plan;

/* CUlaunchAttribute and CUlaunchConfig of cuda.h. */
typedef struct LIB_attribute {
  uint32_t id, pad;
  uint32_t value[16];
} LIB_attribute;
typedef struct LIB_config {
  uint32_t grid[3], block[3], dynamic_smem;
  LIB_stream stream;
  LIB_attribute *attributes;
  uint32_t count;
} LIB_config;

typedef struct LIB_library {
  void *driver;
  int (*cuInit)(unsigned);
  int (*cuDeviceGet)(int *, int);
  int (*cuDeviceGetAttribute)(int *, int, int);
  int (*cuDevicePrimaryCtxRetain)(void **, int);
  int (*cuDevicePrimaryCtxRelease)(int);
  int (*cuCtxGetCurrent)(void **);
  int (*cuCtxSetCurrent)(void *);
  int (*cuCtxGetDevice)(int *);
  int (*cuModuleLoadData)(void **, const void *);
  int (*cuModuleUnload)(void *);
  int (*cuModuleGetFunction)(void **, void *, const char *);
  int (*cuFuncSetAttribute)(void *, int, int);
  int (*cuLaunchKernelEx)(const LIB_config *, void *, void **, void **);
  int (*cuMemAllocAsync)(uint64_t *, size_t, LIB_stream);
  int (*cuMemFreeAsync)(uint64_t, LIB_stream);
  int (*cuMemsetD8Async)(uint64_t, unsigned char, size_t, LIB_stream);
  int (*cuTensorMapEncodeTiled)(void *, int, uint32_t, void *, const uint64_t *, const uint64_t *, const uint32_t *,
                                const uint32_t *, int, int, int, int);
  int (*cuTensorMapReplaceAddress)(void *, void *);
  int (*cuPointerGetAttribute)(void *, int, uint64_t);
  int (*cuGetErrorString)(int, const char **);
  int device, retained, major, minor, sms;
  char folder[1024];
  char message[2048]; /* of which a path may take 1536 */
  void *module[LIB_ARTEFACTS];
  void *function[LIB_ARTEFACTS][LIB_KERNELS];
  LIB_plan *plan[LIB_KEPT];
  int latest; /* number of the plan that was used last */
} LIB_library;
