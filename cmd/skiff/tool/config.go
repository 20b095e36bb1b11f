package tool

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/skiffmq/skiff/cmd/config"
	"github.com/skiffmq/skiff/cmd/skiff/output"
)

// configCommand checks and explains configurations of nodes, and shows and changes those of a running cluster. The flags of a
// node depend on its role, so the verbs about nodes have a command a role.
func configCommand() *cobra.Command {
	cmd := group("config", "Check and explain the configuration of a node, or change those of a cluster")
	check := group("check", "Judge a configuration as the node would when it starts")
	show := group("print", "Print every key of a node, its value and where that came from")
	for _, role := range []config.Role{config.RoleQuorum, config.RoleBroker} {
		check.AddCommand(checkCommand(role))
		show.AddCommand(printCommand(role))
	}
	cmd.AddCommand(check, show)
	cmd.AddCommand(configVerbs()...)
	return cmd
}

func checkCommand(role config.Role) *cobra.Command {
	cmd := &cobra.Command{Use: role.String(), Short: "Judge the configuration of a " + role.String(), Args: none}
	flags := config.AddFlags(cmd.Flags(), role)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		in, err := flags.Input()
		if err != nil {
			return err
		}
		warnings, err := judge(role, in)
		if err != nil {
			return err
		}
		for _, w := range warnings {
			fmt.Fprintln(cmd.ErrOrStderr(), "warning:", w)
		}
		fmt.Fprintln(cmd.OutOrStdout(), "ok")
		return nil
	}
	return cmd
}

// judge reads the typed configuration, which checks how the keys fit together.
func judge(role config.Role, in config.Input) (warnings []string, err error) {
	if role == config.RoleQuorum {
		q, err := config.LoadQuorum(in)
		if err != nil {
			return nil, err
		}
		return q.Warnings, nil
	}
	b, err := config.LoadBroker(in)
	if err != nil {
		return nil, err
	}
	return b.Warnings, nil
}

// printedValue is one key in the output of print.
type printedValue struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Source string `json:"source"`
	Doc    string `json:"doc"`
}

func printCommand(role config.Role) *cobra.Command {
	format := output.Table
	cmd := &cobra.Command{Use: role.String(), Short: "Print the configuration of a " + role.String(), Args: none}
	flags := config.AddFlags(cmd.Flags(), role)
	cmd.Flags().VarP(&format, "output", "o", "format of the result")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		in, err := flags.Input()
		if err != nil {
			return err
		}
		values, err := config.Load(role, in)
		if err != nil {
			return err
		}
		var list []printedValue
		table := output.Rows{Head: []string{"key", "value", "source"}}
		for _, v := range values.All() {
			list = append(list, printedValue{Key: v.Key.Name, Value: v.Text, Source: v.Source.String(), Doc: v.Key.Doc})
			table.Add(v.Key.Name, v.Text, v.Source)
		}
		for _, w := range values.Warnings() {
			fmt.Fprintln(cmd.ErrOrStderr(), "warning:", w)
		}
		return output.Print(cmd.OutOrStdout(), format, list, table)
	}
	return cmd
}
