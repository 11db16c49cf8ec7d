import com.hazelcast.config.Config;
import com.hazelcast.config.JoinConfig;
import com.hazelcast.config.NetworkConfig;
import com.hazelcast.core.Hazelcast;

/**
 * Starts members of a cluster in one process: cluster name, number of CP members, time to live of
 * a session in seconds, ports of the members to be started, and the ports of all, by commas.
 */
public class Members {
    public static void main(String[] arguments) {
        int ttl = Integer.parseInt(arguments[2]);
        String[] all = arguments[4].split(",");
        for (String port : arguments[3].split(",")) {
            Config config = new Config();
            config.setClusterName(arguments[0]);
            config.setProperty("hazelcast.phone.home.enabled", "false");
            config.setProperty("hazelcast.logging.type", "jdk");
            config.setProperty("hazelcast.shutdownhook.policy", "TERMINATE");
            config.setProperty("hazelcast.max.no.heartbeat.seconds", "15");
            config.setProperty("hazelcast.heartbeat.interval.seconds", "1");
            config.setProperty("hazelcast.wait.seconds.before.join", "0");
            config.setProperty("hazelcast.max.wait.seconds.before.join", "0");
            config.setProperty("hazelcast.io.thread.count", "2");
            config.setProperty("hazelcast.operation.thread.count", "2");
            config.setProperty("hazelcast.operation.generic.thread.count", "2");
            config.getMetricsConfig().setEnabled(false);
            config.getJetConfig().setEnabled(false);
            NetworkConfig network = config.getNetworkConfig();
            network.setPort(Integer.parseInt(port)).setPortAutoIncrement(false);
            network.getInterfaces().setEnabled(true).addInterface("127.0.0.1");
            JoinConfig join = network.getJoin();
            join.getAutoDetectionConfig().setEnabled(false);
            join.getMulticastConfig().setEnabled(false);
            join.getTcpIpConfig().setEnabled(true).setConnectionTimeoutSeconds(2);
            for (String other : all) {
                join.getTcpIpConfig().addMember("127.0.0.1:" + other);
            }
            config.getCPSubsystemConfig()
                    .setCPMemberCount(Integer.parseInt(arguments[1]))
                    .setSessionTimeToLiveSeconds(ttl)
                    .setSessionHeartbeatIntervalSeconds(Math.max(1, Math.min(5, ttl / 3)))
                    .setMissingCPMemberAutoRemovalSeconds(0);
            config.getCPSubsystemConfig().getRaftAlgorithmConfig()
                    .setLeaderElectionTimeoutInMillis(500)
                    .setLeaderHeartbeatPeriodInMillis(500)
                    .setMaxMissedLeaderHeartbeatCount(4);
            new Thread(() -> Hazelcast.newHazelcastInstance(config)).start();
        }
    }
}
