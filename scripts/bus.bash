# SPDX-License-Identifier: MIT
# A separate system bus for a host, for tests: a real dbus-daemon with the policy that smcrd installs. Source this
# after scripts/hosts.bash.

# The bus's policy file for smcrd; "": none.
BUS_POLICY=$HOSTS_ROOT/etc/dbus/org.smcrd.conf

# bus_config: the configuration of Debian's system bus, but for the address.
bus_config() {
	cat <<-END
	<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-BUS Bus Configuration 1.0//EN"
	 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
	<busconfig>
	  <type>system</type>
	  <listen>unix:path=$HOSTS_DIR/bus</listen>
	  <auth>EXTERNAL</auth>
	  <policy context="default">
	    <allow user="*"/>
	    <deny own="*"/>
	    <deny send_type="method_call"/>
	    <allow send_type="signal"/>
	    <allow send_requested_reply="true" send_type="method_return"/>
	    <allow send_requested_reply="true" send_type="error"/>
	    <allow receive_type="method_call"/>
	    <allow receive_type="method_return"/>
	    <allow receive_type="error"/>
	    <allow receive_type="signal"/>
	    <allow send_destination="org.freedesktop.DBus"/>
	  </policy>
	  <policy user="root">
	    <allow send_destination="org.freedesktop.DBus" send_interface="org.freedesktop.DBus.Monitoring"/>
	  </policy>
	  ${BUS_POLICY:+<include>$BUS_POLICY</include>}
	</busconfig>
	END
}

# bus_start: start the system bus of host a. Its process is BUS_PID; programs that are started later find it.
bus_start() {
	bus_config >"$HOSTS_DIR/bus.conf"
	chmod a+x "$HOSTS_DIR"
	export DBUS_SYSTEM_BUS_ADDRESS=unix:path=$HOSTS_DIR/bus
	start_on a dbus-daemon --nofork --nopidfile --config-file="$HOSTS_DIR/bus.conf" >>"$HOSTS_DIR/bus.log" 2>&1
	BUS_PID=$!
	until_true 10 bus list >/dev/null 2>&1
}

bus_stop() {
	kill "$BUS_PID"
	wait "$BUS_PID" || true
}

# bus ARGUMENTS..: busctl on host a as root
bus() {
	on a busctl --system "$@"
}

# bus_has_smcrd: does smcrd own its name on the bus?
bus_has_smcrd() {
	bus get-property org.smcrd /org/smcrd org.smcrd.Manager1 Version
}
