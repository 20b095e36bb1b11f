// Package output prints results of the tool: a table for people, JSON or YAML with the same names for programs.
package output

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"gopkg.in/yaml.v3"

	"github.com/skiffmq/skiff/cmd/config"
)

// Format is how a result is printed.
type Format string

// The formats.
const (
	Table Format = "table"
	JSON  Format = "json"
	YAML  Format = "yaml"
)

// String returns the format's name; with Set and Type it makes Format a flag.
func (f *Format) String() string { return string(*f) }

// Type names the flag's type in help texts.
func (f *Format) Type() string { return "table|json|yaml" }

// Set reads the flag.
func (f *Format) Set(s string) error {
	switch Format(s) {
	case Table, JSON, YAML:
		*f = Format(s)
		return nil
	}
	return fmt.Errorf("want table, json or yaml")
}

// Rows is a result as a table.
type Rows struct {
	// Head has the columns' names.
	Head []string
	// Lines have as many cells as Head.
	Lines [][]string
}

// Add appends a line; every cell is printed with %v.
func (r *Rows) Add(cells ...any) {
	line := make([]string, len(cells))
	for i, c := range cells {
		line[i] = fmt.Sprint(c)
		if line[i] == "" {
			line[i] = "-"
		}
	}
	r.Lines = append(r.Lines, line)
}

// Print writes value as JSON or YAML, or else the table.
func Print(w io.Writer, f Format, value any, table Rows) error {
	var err error
	switch f {
	case JSON:
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(value)
	case YAML:
		err = printYAML(w, value)
	case Table:
		err = table.write(w)
	}
	if err != nil {
		return config.Failed("", "print: %v", err)
	}
	return nil
}

// printYAML goes through JSON, so that both have the same names and only one set of tags is kept.
func printYAML(w io.Writer, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	var plain yaml.Node
	if err := yaml.Unmarshal(data, &plain); err != nil {
		return err
	}
	blockStyle(&plain)
	encoder := yaml.NewEncoder(w)
	encoder.SetIndent(2)
	if err := encoder.Encode(&plain); err != nil {
		return err
	}
	return encoder.Close()
}

// blockStyle undoes the braces and quotes of JSON.
func blockStyle(n *yaml.Node) {
	if len(n.Content) > 0 {
		n.Style &^= yaml.FlowStyle
	}
	if n.Kind == yaml.ScalarNode {
		n.Style = 0
	}
	for _, child := range n.Content {
		blockStyle(child)
	}
}

func (r Rows) write(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if len(r.Head) > 0 {
		fmt.Fprintln(tw, strings.ToUpper(strings.Join(r.Head, "\t")))
	}
	for _, line := range r.Lines {
		fmt.Fprintln(tw, strings.Join(line, "\t"))
	}
	return tw.Flush()
}
