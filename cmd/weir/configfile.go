package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// defaultConfig is the configuration where nobody names another, and configVariable the variable that names one.
const (
	defaultConfig  = "/etc/weir/weir.yaml"
	configVariable = "WEIR_CONFIG"
)

// errNoConfig is returned where a command needs a configuration and there is none.
var errNoConfig = errors.New("which configuration?")

// configFile says which configuration is meant: the one that was typed, else that of the environment, else the usual
// file if there is one, else "". A usual file that cannot be read is there all the same.
func configFile(typed, environment, usual string) string {
	switch {
	case typed != "":
		return typed
	case environment != "":
		return environment
	}
	if _, err := os.Stat(usual); errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return usual
}

// findConfig is configFile on this machine.
func findConfig(typed string) string {
	return configFile(typed, os.Getenv(configVariable), defaultConfig)
}

// needConfig is findConfig for a command that cannot do without.
func needConfig(typed string) (string, error) {
	if file := findConfig(typed); file != "" {
		return file, nil
	}
	return "", fmt.Errorf("%w name a file, set %s, or make %s (weir init writes one)", errNoConfig, configVariable, defaultConfig)
}
