/* Interpreter for the programs in program.h, one frame at a time. */

#ifndef DRIVER_H
#define DRIVER_H

#include "program.h"

/* Vectors sent by the cores to the host in this frame, in order. */
struct sent {
    int core;
    int64_t address;
    int8_t vector[COLUMNS];
};

extern struct sent npu_sent[HOST_VECTORS];
extern int npu_sent_count;

/* Reset all memories before a frame; odd frames use the second slots of feature maps. */
void npu_reset(int frame);

/* Run a function of the model on all cores. A program that cannot continue ends the process with
 * exit code 1 and a message with core and instruction. */
void npu_run(int function);

/* Pointer into a core's feature memory, at a vector address (COLUMNS bytes per vector). */
int8_t *npu_map(int core, int32_t address);

#endif
