/* Running the programs of program.h, frame by frame. */

#ifndef DRIVER_H
#define DRIVER_H

#include "program.h"

/* What the cores have sent to the host in this frame, in order. */
struct sent {
    int core;
    int64_t address;
    int8_t vector[COLUMNS];
};

extern struct sent npu_sent[HOST_VECTORS];
extern int npu_sent_count;

/* All memories as before a frame; odd frames use the second slots of maps. */
void npu_reset(int frame);

/* A function of the model on all cores. A program that cannot go on ends the process with exit code
 * 1 and a line that names core and instruction. */
void npu_run(int function);

/* COLUMNS bytes of a core's feature memory, and those behind them. */
int8_t *npu_map(int core, int32_t address);

#endif
