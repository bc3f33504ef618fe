CREATE MATERIALIZED VIEW averages AS
SELECT _key AS sensor, count(*) AS readings, avg(temp) AS temp FROM readings GROUP BY _key;
