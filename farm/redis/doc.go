// Package redis is a farm.Pot in Redis or Valkey: standalone, with sentinels, or a cluster.
//
// Open takes a URL and connects when the first call comes, so that a node starts while its engine is down. Each Take is
// one script, pot.lua, run by the engine in one step and by the engine's clock. All scripts are in this folder.
//
// The engine must keep what it is given until it expires: Check refuses one that evicts keys when its memory is full.
// Nothing is stored for good: what counts no more expires a minute later.
package redis
