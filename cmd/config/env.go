package config

import (
	"regexp"
	"strings"
)

// Prefixes of the environment's variables, in ascending precedence.
var envPrefixes = []string{"KAFKA_", "SKIFF_"}

// ownVariables matches variables of ours that are not keys: the tool and the tests read them.
var ownVariables = regexp.MustCompile(`^SKIFF_(DATA|CI|KEEP|BIN|TEST_.*)$`)

// serviceLink matches the variables that Kubernetes puts into every pod for a Service named skiff or kafka.
var serviceLink = regexp.MustCompile(`^(SERVICE_HOST|SERVICE_PORT(_.*)?|PORT(_\d+_(TCP|UDP)(_.*)?)?)$`)

// kafkaNoKeys are variables of Kafka's scripts and images that are not keys.
var kafkaNoKeys = regexp.MustCompile(`^(HEAP_OPTS|OPTS|HOME|VERSION|DEBUG|MODE|JMX_.*|JVM_.*|GC_.*|LOG4J_.*|CFG_.*|LOG_DIR_PATH|USER|DIR|BIN.*|ENABLE_.*)$`)

// envFound is what the environment says.
type envFound struct {
	settings []Setting
	unused   []Setting // Kafka's keys that Skiff does not use
	unknown  []Setting // nobody's
}

// readEnv reads the variables that stand for keys. Variables of the tool, of Kafka's scripts and of Kubernetes are passed over.
func readEnv(environ []string) envFound {
	names := make(map[string]string, len(keysByName))
	for key := range keysByName {
		names[envName(key)] = key
	}
	var found envFound
	for _, prefix := range envPrefixes {
		for _, variable := range environ {
			name, value, ok := strings.Cut(variable, "=")
			rest, has := strings.CutPrefix(name, prefix)
			if !ok || !has {
				continue
			}
			found.add(names, prefix, rest, value)
		}
	}
	return found
}

func (f *envFound) add(names map[string]string, prefix, rest, value string) {
	s := Setting{Key: names[rest], Value: strings.TrimSpace(value), Source: Source{Kind: SourceEnv, Name: prefix + rest}}
	if s.Key != "" {
		f.settings = append(f.settings, s)
		return
	}
	if ownVariables.MatchString(prefix+rest) || serviceLink.MatchString(rest) {
		return
	}
	if key, ok := unusedEnv(rest); ok {
		s.Key = key
		f.unused = append(f.unused, s)
		return
	}
	if prefix == "KAFKA_" && kafkaNoKeys.MatchString(rest) {
		return
	}
	s.Key = strings.ToLower(strings.ReplaceAll(rest, "_", "."))
	f.unknown = append(f.unknown, s)
}
