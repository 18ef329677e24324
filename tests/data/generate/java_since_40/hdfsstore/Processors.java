package hdfsstore;

import java.math.BigDecimal;
import java.sql.Timestamp;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.api.java.function.MapFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoder;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.streaming.ExpiredTimerInfo;
import org.apache.spark.sql.streaming.ListState;
import org.apache.spark.sql.streaming.MapState;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.StatefulProcessor;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.TimerValues;
import org.apache.spark.sql.streaming.ValueState;
import scala.Tuple2;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;

/** transformWithState of the JVM over rows (k, ts, n, d): primitives, beans, tuples and Kryo as keys and values. */
public final class Processors {
  private Processors() {}

  private static final Encoder<Tuple2<String, Integer>> PAIR = Encoders.tuple(Encoders.STRING(), Encoders.INT());

  /** Keys of one string, as the JVM has them: struct&lt;value: string&gt;. */
  public static Dataset<Row> byString(Dataset<Row> events, String timeMode, boolean expires) {
    MapFunction<Row, String> key = row -> row.isNullAt(0) ? "null" : row.getString(0);
    return events
        .groupByKey(key, Encoders.STRING())
        .transformWithState(new Shapes<String>(expires), mode(timeMode), OutputMode.Update(), Encoders.STRING())
        .toDF();
  }

  /** Keys of two columns. */
  public static Dataset<Row> byPair(Dataset<Row> events, String timeMode, boolean expires) {
    MapFunction<Row, Tuple2<String, Integer>> key =
        row -> new Tuple2<>(row.isNullAt(0) ? null : row.getString(0), row.isNullAt(2) ? -1 : row.getInt(2) % 3);
    return events
        .groupByKey(key, PAIR)
        .transformWithState(
            new Shapes<Tuple2<String, Integer>>(expires), mode(timeMode), OutputMode.Update(), Encoders.STRING())
        .toDF();
  }

  private static TimeMode mode(String name) {
    switch (name) {
      case "EventTime":
        return TimeMode.EventTime();
      case "ProcessingTime":
        return TimeMode.ProcessingTime();
      default:
        return TimeMode.None();
    }
  }

  /** Keeps values, lists and maps of each kind of encoder, and timers. */
  public static final class Shapes<K> extends StatefulProcessor<K, Row, String> {
    private final boolean expires;
    private transient TimeMode time;
    private transient ValueState<Long> count;
    private transient ValueState<GroupStates.Totals> totals;
    private transient ValueState<byte[]> packed;
    private transient ListState<String> words;
    private transient ListState<Tuple2<String, Integer>> pairs;
    private transient MapState<Integer, BigDecimal> amounts;
    private transient MapState<Tuple2<String, Integer>, GroupStates.Totals> nested;

    Shapes(boolean expires) {
      this.expires = expires;
    }

    @Override
    public void init(OutputMode mode, TimeMode timeMode) {
      TTLConfig ttl = expires ? new TTLConfig(Duration.ofDays(20000)) : TTLConfig.NONE();
      Encoder<GroupStates.Totals> bean = Encoders.bean(GroupStates.Totals.class);
      time = timeMode;
      count = getHandle().getValueState("count", Encoders.LONG(), ttl);
      totals = getHandle().getValueState("totals", bean, ttl);
      packed = getHandle().getValueState("packed", Encoders.kryo(byte[].class), ttl);
      words = getHandle().getListState("words", Encoders.STRING(), ttl);
      pairs = getHandle().getListState("pairs", PAIR, ttl);
      amounts = getHandle().getMapState("amounts", Encoders.INT(), Encoders.DECIMAL(), ttl);
      nested = getHandle().getMapState("nested", PAIR, bean, ttl);
    }

    @Override
    public Iterator<String> handleInputRows(K key, Iterator<Row> rows, TimerValues timers) {
      GroupStates.Totals sum = totals.exists() ? totals.get() : new GroupStates.Totals();
      List<Integer> seen = new ArrayList<>(sum.getSeen());
      while (rows.hasNext()) {
        Row row = rows.next();
        sum.setRows(sum.getRows() + 1);
        if (row.isNullAt(2)) {
          words.clear();
          continue;
        }
        int n = row.getInt(2);
        seen.add(n);
        sum.setLast(n % 2 == 0 ? null : "n=" + n);
        words.appendValue("word " + n);
        pairs.appendValue(new Tuple2<>("pair", n));
        pairs.appendValue(new Tuple2<>(n % 3 == 0 ? null : "other", -n));
        amounts.updateValue(n % 4, BigDecimal.valueOf(n, 2));
        nested.updateValue(new Tuple2<>("n" + n % 2, n % 2), sum);
        if (n % 5 == 0) {
          amounts.removeKey(n % 4);
        }
        if (time.equals(TimeMode.EventTime())) {
          Timestamp at = row.getTimestamp(1);
          getHandle().registerTimer(at.getTime() + 300000);
          getHandle().registerTimer(at.getTime() + 3600000);
        }
      }
      sum.setSeen(seen);
      totals.update(sum);
      count.update(sum.getRows());
      packed.update(new byte[] {(byte) sum.getRows(), 0, -1});
      return one(key + " " + sum.getRows());
    }

    @Override
    public Iterator<String> handleExpiredTimer(K key, TimerValues timers, ExpiredTimerInfo info) {
      count.clear();
      return one(key + " at " + info.getExpiryTimeInMs());
    }

    private static Iterator<String> one(String text) {
      return CollectionConverters.asScala(Arrays.asList(text).iterator());
    }
  }
}
