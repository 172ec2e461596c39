// Package xdpgate is the edge where packets arrive: the network traffic limiter. A program in the kernel, at the
// network card (XDP), drops the packets of source networks that are over their limit before they reach the host. It is
// the Bloom limiter of package bloom once more, in C: the same lines of limiters, the same hash, the same answers, in
// memory that does not grow with the number of sources.
//
//	           kernel, per packet (bpf/weir.c)                              weir (this package)
//
//	packet -> read -> watched? -> allowed? banned? -> limiters             New, Attach, Configure, Close
//	            |        |           |        |           |                       |
//	          broken: others:      pass     drop     pass or drop                 |
//	          pass    pass           |        |           |                       |
//	                                allow    ban     lines, state  <------ shared maps, pinned: sweep, change keys,
//	                                                 counters      ------> take expired bans out, estimate the damage
//
// Most callers want New, Attach and Close. Close leaves the program, its tables and its lists in place, pinned below
// Options.Pin: the limits stay while weir is restarted, and a new gate takes them over. Detach removes all of it.
//
// While no weir runs, limits, lists and expiries hold, for they are the kernel's. Keys do not change meanwhile, and
// idle sources may get up to one burst more once.
//
// The objects are made from the C program by go generate and are committed: no compiler is needed where weir is
// deployed.
package xdpgate

//go:generate sh bpf/generate.sh object bpf/weir.c
