// SPDX-License-Identifier: Apache-2.0
// Measurements only: a test run gives a program the same packet again and again, so the program makes up where it is from.
#pragma once

#include <linux/types.h>

// made_up_source returns an address in one of so many networks of 24 bits, a different one each time.
static __always_inline __u32 made_up_source(__u64 *seed, __u32 sources)
{
	*seed = *seed * 6364136223846793005ULL + 1442695040888963407ULL;
	__u32 number = (*seed >> 32) * sources >> 32;
	return __builtin_bswap32(0x10000000u + (number << 8));
}
