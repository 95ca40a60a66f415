/* A training program as a C library: steps with batches of the caller's, tensors in and out, checkpoints.

   Every function but train_error() may fail; it returns 1 then (train_create() NULL, and what counts
   something -1), and train_error() says why. A program is used by one thread at a time, on a GPU always by
   the one that created it.

   A program of several ranks (parallel.data) runs in as many processes, which a launcher starts: torchrun,
   mpirun or srun. Each gives its own micro-batches. What says "together" below returns when all ranks have
   called it; where a rank is lost it fails on the others, and a process that does not call it ends soon. */
#ifndef HYDRAC_TRAIN_H
#define HYDRAC_TRAIN_H
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct train_program train_program;

typedef struct {
  int64_t sequences;     /* of a micro-batch: B */
  int64_t positions;     /* of a sequence: T */
  int64_t micro_batches; /* of an optimizer step: M */
  int64_t vocabulary;    /* tokens are 0 to one less; 0 where a model reads none */
  int64_t features;      /* of a position: F; 0 where a model reads tokens */
  int64_t outputs;       /* of a position: O; 0 where targets are classes */
  int64_t ranks;         /* processes that train together; 1: this one alone */
  int64_t rank;          /* of this process: 0 to ranks - 1 */
} train_sizes;

/* Row-major, [M,B,T] for a step and [B,T] for an evaluation. What the program does not read may be NULL. */
typedef struct {
  const int32_t* tokens;      /* [M,B,T] */
  const int32_t* targets;     /* [M,B,T] the next token, or the class; -100 where no loss is wanted */
  const float* features;      /* [M,B,T,F] */
  const float* float_targets; /* [M,B,T,O]; NaN where no loss is wanted */
  const int32_t*
      documents; /* [M,B,T,2] of the token's document in its row: its first token, and that behind its last */
  const int32_t* positions; /* [M,B,T] of the token in its document */
} train_batch;

typedef struct {
  float loss; /* of all targets of the step */
  float grad_norm;
  float learning_rate;
  int32_t skipped; /* 1: fp16 ran out of range, and parameters are as they were */
} train_result;

/* What the last call of this thread that failed says; "" before. Valid until the next call. */
const char* train_error(void);

/* A program with the parameters that its spec's seed gives; together. train_destroy(NULL) does nothing. */
train_program* train_create(void);
void train_destroy(train_program* program);
int train_get_sizes(train_program* program, train_sizes* sizes);

/* One optimizer step, together: forward and backward of M micro-batches, of each rank, then the update. In
   one process that accumulates, rank 0's micro-batches would come first. Of a program with an objective it is
   the step of the data alone: no replies are sampled. */
int train_step(train_program* program, const train_batch* batch, train_result* result);
/* The halves of a step, for a look at its gradients: in between, only tensors and gradients can be read. A
   rank reads its own micro-batches' gradients; train_update adds up those of all. Where ranks keep parts of
   gradients alone (parallel.zero: 2) none can be read. */
int train_backward(train_program* program, const train_batch* batch);
int train_update(train_program* program, train_result* result);
/* The loss of one micro-batch without dropout. Changes nothing. Of a program with parallel.zero: together
   where parameters were written, or a checkpoint loaded, since the last step; with zero: 3 always. */
int train_evaluate(train_program* program, const train_batch* batch, float* loss);

/* Parameters by the names and in the shapes that a checkpoint has them, as float32 whatever they are stored
   as. With parallel.zero a rank of a GPU, and of any program with parallel.zero: 3, may have a part of them
   alone: then reading fails, train_save() works, and every rank writes the same. */
int64_t train_tensor_count(train_program* program);
const char* train_tensor_name(train_program* program, int64_t index); /* NULL where it fails */
int64_t train_tensor_elements(train_program* program, const char* name);
int train_read_tensor(train_program* program, const char* name, float* to, int64_t elements);
int train_write_tensor(train_program* program, const char* name, const float* from, int64_t elements);

/* Of a parameter that trains, in its shape, as float32; between train_backward and train_update. */
int train_read_gradient(train_program* program, const char* name, float* to, int64_t elements);

/* Writes folder/checkpoint-STEP, together: rank 0 does it. Continues from such a folder, optimizer and step
   included; every rank does so. */
int train_save(train_program* program, const char* folder);
int train_load(train_program* program, const char* checkpoint);

#ifdef __cplusplus
}
#endif
#endif
