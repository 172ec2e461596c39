package rlsgate

import "weir/internal/clock"

var sysClock = clock.System
var peerAddr string
